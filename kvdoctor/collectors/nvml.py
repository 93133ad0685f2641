"""What NVML says of the family's cards. One call that fails, or a card that is lost, takes nothing else with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvdoctor.collectors import nvml_calls as calls
from kvdoctor.collectors.lines import HostPage, Label, Lines
from kvdoctor.collectors.numa import card_node
from kvdoctor.collectors.xid import XidWatch
from kvdoctor.errors import Refused, Unavailable
from kvdoctor.target.family import Card

NO_PACKAGE = Refused("the Python package for NVML is not installed", "pip install nvidia-ml-py")
_INIT = {
    9: ("the NVIDIA driver is not loaded", "load it (nvidia-smi), or run on the GPU's host"),
    12: (
        "there is no NVIDIA driver library here",
        "no NVIDIA card, or in a container: --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    18: ("the driver's library and its kernel module differ", "reload the driver or restart the container"),
    4: ("NVML may not be used by this user", "run kvdoctor as root"),
}
_NOT_SEEN = "in a container: share the host's pids (--pid=host); an engine on CPUs needs none"


class Nvml:
    """The cards of a family; where it names none, those on which one of its processes is seen."""

    name, kind, role = "nvml", "host", None

    def __init__(
        self,
        cards: Sequence[Card],
        pids: Sequence[int],
        *,
        load: Callable[[], Any] | None = None,
        sys: str = "/sys",
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._cards, self._pids, self._sys, self._about = cards, frozenset(pids), sys, dict(about or {})
        self._load = load or _import
        self._nvml: Any = None
        self._handles: list[tuple[int, Any]] = []
        self._last: dict[int, int] = {}
        self._dead: dict[tuple[int, str], str] = {}
        self._xid: XidWatch | None = None

    def read(self) -> HostPage:
        """Return every counter that the cards have; Unavailable when NVML cannot be used."""
        lines = Lines()
        self._open()
        used = [(i, handle) for i, handle in self._handles if self._cards or self._uses(handle)]
        for index, handle in used:
            self._card(lines, index, handle)
        if not used:
            lines.gap("nvml", "no process of the engine is seen on any card", _NOT_SEEN)
        for (index, xid), count in (self._xid.counts() if self._xid else {}).items():
            lines.add("host_gpu_xids_total", float(count), ("gpu", str(index)), ("xid", str(xid)))
        for (index, what), reason in self._dead.items():
            lines.gap(f"GPU {index}", f"{what}: {reason}", "" if reason == calls.UNSUPPORTED else calls.CURE)
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Leave NVML open until the process ends: a call under way must not lose it."""

    def _open(self) -> None:
        """Initialise NVML once and find the cards; raises with the cure when it cannot be."""
        if self._handles:
            return
        nvml = self._nvml = self._nvml or self._load()
        try:
            nvml.nvmlInit()
            count = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            reason, cure = _INIT.get(
                calls.code(error), (f"NVML cannot be used: {error}", "look at nvidia-smi")
            )
            raise Refused(reason, cure) from None
        wanted = {card.index for card in self._cards if card.index >= 0}
        uuids = {card.uuid for card in self._cards if card.index < 0}
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                known = (
                    not self._cards or index in wanted or (uuids and nvml.nvmlDeviceGetUUID(handle) in uuids)
                )
            except nvml.NVMLError as error:
                self._dead[index, "the card"] = calls.reason(error)
                continue
            if known:
                self._handles.append((index, handle))
        if not self._handles:
            lost = "; ".join(f"GPU {index}: {reason}" for (index, _), reason in self._dead.items())
            raise Unavailable(lost or "no card of the engine is visible here", "look at nvidia-smi")
        try:
            self._xid = XidWatch(nvml, self._handles)
        except (nvml.NVMLError, AttributeError):
            for index, _ in self._handles:
                self._dead[index, "Xid events"] = calls.UNSUPPORTED

    def _card(self, lines: Lines, index: int, handle: Any) -> None:
        """Ask one card for everything; what it has not is remembered and not asked again."""
        nvml, labels = self._nvml, (("gpu", str(index)),)
        for what, ask in calls.READINGS:
            if (index, what) in self._dead:
                continue
            try:
                samples = tuple(ask(nvml, handle))
            except nvml.NVMLError as error:
                self._fail(index, what, error)
                continue
            except (AttributeError, UnicodeDecodeError):
                self._dead[index, what] = "this nvidia-ml-py does not know it"
                continue
            for name, value, extra in samples:
                lines.add(name, value, *labels, *extra)
        self._processes(lines, index, handle, labels)
        bus = calls.bus_id(nvml, handle)
        node = card_node(bus, self._sys) if bus else None
        lines.add("host_gpu_node", 1.0 if node else None, *labels, ("node", node or ""))

    def _fail(self, index: int, what: str, error: Exception) -> None:
        if calls.code(error) not in calls.PASSING:
            self._dead[index, what] = calls.reason(error)

    def _uses(self, handle: Any) -> bool:
        """Say whether a member is on a card: without that, a card that nobody named is not the engine's."""
        try:
            return bool(self._pids & calls.process_memory(self._nvml, handle).keys())
        except self._nvml.NVMLError:
            return False

    def _processes(self, lines: Lines, index: int, handle: Any, labels: tuple[Label, ...]) -> None:
        """Memory and time occupancy by process; `member` says whether it is one of the family."""
        nvml = self._nvml
        if (index, "processes") in self._dead:
            return
        try:
            memory = calls.process_memory(nvml, handle)
        except nvml.NVMLError as error:
            self._fail(index, "processes", error)
            return
        for pid, size in memory.items():
            who = (("pid", str(pid)), ("member", str(pid in self._pids).lower()))
            lines.add("host_gpu_process", 1.0, *labels, *who)
            lines.add("host_gpu_process_bytes", size, *labels, *who)
        busy, self._last[index] = calls.process_occupancy(nvml, handle, self._last.get(index, 0))
        for pid in memory:
            who = (("pid", str(pid)), ("member", str(pid in self._pids).lower()))
            lines.add("host_gpu_process_occupancy_ratio", busy.get(pid, 0.0), *labels, *who)


def _import() -> Any:
    """Import nvidia-ml-py; the old package of the same name warns on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pynvml
        except ImportError:
            raise NO_PACKAGE from None
    return pynvml
