"""One card, or one MIG instance of it: everything it tells, and for what it does not tell the reason, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kvdoctor.collectors import nvml_calls as calls
from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.errand import Errand
from kvdoctor.collectors.gpm import Gpm
from kvdoctor.collectors.lines import GAP, Label
from kvdoctor.collectors.numa import card_node
from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.collectors.nvml_tenants import Tenants
from kvdoctor.errors import Unavailable

Sample = tuple[str, float | None, tuple[Label, ...]]

_PCIE = "host_gpu_pcie_bytes_per_second"
_EXPORTER = "run dcgm-exporter and give its page too: --url http://HOST:9400/metrics"
_ADMIN_ONLY = f"{_EXPORTER}; its profiling needs root here (RmProfilingAdminOnly: 1)"
_WHOLE_CARD = "this MIG instance has no compute instance, or its driver gives none of its counters"


@dataclass(frozen=True, slots=True)
class Handle:
    """What NVML gave for a card; an instance also has its parent and its number in it."""

    index: int
    card: Any
    parent: Any = None
    instance: int | None = None

    @property
    def name(self) -> str:
        """`0` for a card, `0/3` for its GPU instance 3."""
        return str(self.index) if self.instance is None else f"{self.index}/{self.instance}"


@dataclass(slots=True)
class CardReader:
    """One card under observation. What it has not is remembered, and not asked again."""

    nvml: Any
    handle: Handle
    members: frozenset[int]
    here: Setting
    clock: Callable[[], float]
    sys: str = "/sys"
    settings: tuple[str, ...] = ()
    """`vgpu`, `passthrough`, `mig`, `confidential`, `wsl`, as far as they decide what is told."""
    missing: int = 0
    """The error after which the card must not be touched any more; 0 while all is well."""
    dead: dict[str, int] = field(default_factory=dict)
    """What is not asked again, and the code of the error that it gave."""
    failing: dict[str, int] = field(default_factory=dict)
    """How often in a row a reading failed with an error that may pass, and its code."""
    lasting: tuple[Sample, ...] | None = None
    counters: Gpm | None = None
    counters_gap: str = ""
    tenants: Tenants | None = None
    windows: Errand[tuple[Sample, ...]] | None = None

    def read(self) -> tuple[Sample, ...]:
        """Return every sample and gap of this moment. Never raises for what a card or driver does."""
        if self.missing:
            return tuple(self._lost())
        samples = [*self._lasting(), *self._passing()]
        samples += self._counters()
        samples += self._windows(any(name == _PCIE for name, _, _ in samples))
        samples += self._tenants(samples)
        return (*samples, *(self._lost() if self.missing else self._gaps()))

    def _ask(self, what: str, ask: Callable[[], Iterable[Sample]]) -> list[Sample]:
        """Ask for one thing, and take note of why it does not come."""
        if self.missing or what in self.dead:
            return []
        try:
            found = list(ask())
        except errors.kinds(self.nvml) as error:
            self._failed(what, errors.code(error))
            return []
        except (AttributeError, UnicodeDecodeError):
            self.dead[what] = -1
            return []
        self.failing.pop(what, None)
        return found

    def _failed(self, what: str, number: int) -> None:
        if number in errors.LOST:
            self.missing = number
        elif number in errors.FICKLE:
            self.failing[what] = self.failing.get(what, 0) + 1
            self.dead.pop(what, None)
        elif number not in errors.SILENT:
            self.dead[what] = number

    def _lasting(self) -> tuple[Sample, ...]:
        """Return what never changes, asked once."""
        if self.lasting is None:
            found: list[Sample] = []
            for what, ask in calls.LASTING:
                if self._tells(what):
                    found += self._ask(what, lambda ask=ask: ask(self.nvml, self.handle.card))  # type: ignore[misc]
            bus = calls.bus_id(self.nvml, self.handle.parent or self.handle.card)
            node = card_node(bus, self.sys) if bus else None
            found.append(("host_gpu_node", 1.0 if node else None, (("node", node or ""),)))
            found += [("host_gpu_setting", 1.0, (("kind", kind),)) for kind in self.settings]
            self.lasting = tuple(found)
        return self.lasting

    def _passing(self) -> Iterator[Sample]:
        for what, ask in calls.PASSING:
            if self._tells(what):
                yield from self._ask(what, lambda ask=ask: ask(self.nvml, self.handle.card))  # type: ignore[misc]

    def _tells(self, what: str) -> bool:
        if self.handle.instance is not None:
            return what in calls.OF_AN_INSTANCE
        return not ("mig" in self.settings and what in calls.NOT_UNDER_MIG)

    def _counters(self) -> list[Sample]:
        """Read GPM. Under MIG it is told for each instance, and the card as a whole is not sampled."""
        if self.counters_gap or ("mig" in self.settings and self.handle.instance is None):
            return []
        if self.counters is None:
            card = self.handle.parent if self.handle.instance is not None else self.handle.card
            self.counters = Gpm(self.nvml, card, clock=self.clock, instance=self.handle.instance)
        try:
            return self._ask("GPM", self.counters.read)
        except Unavailable as error:
            self.counters_gap = error.reason
            return []

    def _windows(self, counted: bool) -> list[Sample]:
        """Take the PCIe windows that came back since, and send for the next: only where no counter tells."""
        what = "PCIe traffic"
        if counted or self.handle.instance is not None or "mig" in self.settings or what in self.dead:
            return []
        if self.windows is None:
            self.windows = Errand(
                lambda: tuple(self._ask(what, lambda: calls.windows(self.nvml, self.handle.card)))
            )
        found = list(self.windows.back() or ())
        self.windows.send()
        return found

    def _tenants(self, samples: Iterable[Sample]) -> list[Sample]:
        if self.tenants is None:
            self.tenants = Tenants(self.nvml, self.handle.card, self.handle.name, self.members, self.here)
        used = next((value for name, value, _ in samples if name == "host_gpu_memory_used_bytes"), None)
        tenants = self.tenants
        return self._ask("processes", lambda: tenants.read(used))

    def uses_card(self) -> bool:
        """Say whether a member is on the card: without that, a card that nobody named is not the engine's."""
        found = Tenants(self.nvml, self.handle.card, self.handle.name, self.members, self.here)
        try:
            return found.holds_member()
        except errors.kinds(self.nvml):
            return False

    def _lost(self) -> Iterator[Sample]:
        """Say that the card is gone: a finding where it is a fault, and a gap in any case."""
        reason = errors.reason(self.missing)
        if self.missing in errors.LOST:
            yield "host_gpu_missing", 1.0, (("reason", reason),)
        yield self._gap(reason, errors.cure(self.missing))

    # -- what it does not tell ---------------------------------------------------------------------------------

    def _gaps(self) -> Iterator[Sample]:
        """Return one gap for each thing that is kept from us; a view brings those of one reason together."""
        for what, number in self.dead.items():
            if what != "GPM":
                reason, cure = self._why(number)
                yield self._gap(f"{what}: {reason}", cure)
        for what, times in self.failing.items():
            if times > 1:
                yield self._gap(f"{what}: it failed twice in a row: a hanging or lost card", errors.cure(15))
        if self.counters_gap or "GPM" in self.dead:
            yield self._gap(*self._no_counters())

    def _why(self, number: int) -> tuple[str, str]:
        if number == -1:
            return "this nvidia-ml-py does not know it", "pip install --upgrade nvidia-ml-py"
        if number != errors.NOT_SUPPORTED:
            return errors.reason(number), errors.cure(number)
        who = {
            "vgpu": "a vGPU guest is not told",
            "wsl": "WSL is not told",
            "mig": "not told while MIG is on",
        }
        told = next((who[kind] for kind in self.settings if kind in who), errors.UNSUPPORTED)
        return told, ""

    def _no_counters(self) -> tuple[str, str]:
        """Say what is unknown without GPM, and where else it could be read."""
        unknown = "HBM traffic and busy SMs are unknown"
        if "confidential" in self.settings:
            why, cure = "confidential computing switches the counters off", "none while it is on"
            return f"{unknown}: {why}", cure
        if "vgpu" in self.settings:
            return f"{unknown}: a vGPU guest is given no counters", "ask the host's administrator"
        if self.handle.instance is not None:
            return f"{unknown}: {_WHOLE_CARD}", _EXPORTER
        reason = self.counters_gap or errors.reason(self.dead["GPM"])
        return f"{unknown}: {reason}", _ADMIN_ONLY if self.here.admin_only else _EXPORTER

    def _gap(self, reason: str, cure: str) -> Sample:
        return GAP, 1.0, (("source", f"GPU {self.handle.name}"), ("reason", reason), ("cure", cure))
