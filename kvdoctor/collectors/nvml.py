"""What NVML says of the family's cards. One call that fails, or a card that is lost, takes nothing else with it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.errand import Errand
from kvdoctor.collectors.lines import GAP, HostPage, Lines
from kvdoctor.collectors.nvml_card import CardReader, Handle, Sample
from kvdoctor.collectors.nvml_find import find, pick, settings
from kvdoctor.collectors.nvml_setting import Setting, setting
from kvdoctor.collectors.xid import XidWatch
from kvdoctor.errors import Refused, Unavailable
from kvdoctor.target.family import Card

NO_PACKAGE = Refused("the Python package for NVML is not installed", "pip install nvidia-ml-py")
_NOT_SEEN = "in a container: share the host's pids (--pid=host); an engine on CPUs needs none"
LIMIT = 1.0
"""Seconds that a card has to answer; one that hangs is told, and the others are read on without it."""

NAP = 0.001
"""Seconds between two looks at calls that block."""


@dataclass(slots=True)
class _Watched:
    """One card, read in a thread of its own."""

    reader: CardReader
    errand: Errand[tuple[Sample, ...]]


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
        clock: Callable[[], float] = time.monotonic,
        here: Setting | None = None,
    ) -> None:
        """Touch nothing yet. `clock` in seconds times the counters; `here` is where we are, else it is looked up."""
        self._cards, self._pids, self._sys, self._about = cards, frozenset(pids), sys, dict(about or {})
        self._load, self._clock, self._here = load or _import, clock, here
        self._nvml: Any = None
        self._readers: list[CardReader] = []
        self._watched: list[_Watched] | None = None
        self._xid: XidWatch | None = None

    def read(self) -> HostPage:
        """Return every counter that the cards have; Unavailable when NVML cannot be used."""
        lines = Lines()
        self._open()
        used = self._used()
        for watched in used:  # one after the other: threads that call at once only wait for one another
            self._take(lines, watched, LIMIT if watched.errand.send() else 0.0)
        if not used:
            lines.gap("nvml", "no process of the engine is seen on any card", _NOT_SEEN)
        self._xids(lines)
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    @property
    def waits(self) -> bool:
        """Say whether a call that blocks is still under way."""
        return any(reader.windows is not None and reader.windows.away for reader in self._readers)

    def settle(self) -> None:
        """Wait until the calls that block are back, for those who need what they bring; it stays to be fetched."""
        deadline = time.monotonic() + LIMIT
        while self.waits and time.monotonic() < deadline:
            time.sleep(NAP)

    def close(self) -> None:
        """Leave NVML open until the process ends: a call under way must not lose it."""

    def _open(self) -> None:
        """Initialise NVML once and find the cards; raises with the cure when it cannot be."""
        if self._readers:
            return
        nvml = self._nvml = self._nvml or self._load()
        here = self._here = self._here or setting()
        try:
            nvml.nvmlInit()
            found = find(nvml, self._cards)
        except errors.kinds(nvml) as error:
            raise errors.cannot_start(error, here) from None
        if not found.handles:
            lost = "; ".join(f"GPU {index}: {errors.reason(number)}" for index, number in found.lost)
            cure = errors.cure(found.lost[0][1]) if found.lost else "look at nvidia-smi"
            raise Unavailable(lost or "no card of the engine is visible here", cure)
        self._readers = [self._reader(handle, here) for handle in found.handles]
        for index, number in found.lost:
            reader = self._reader(Handle(index, None), here)
            reader.missing = number
            self._readers.append(reader)
        whole = [(handle.index, handle.card) for handle in found.handles if handle.instance is None]
        self._xid = XidWatch(nvml, whole)

    def _reader(self, handle: Handle, here: Setting) -> CardReader:
        reader = CardReader(self._nvml, handle, self._pids, here, self._clock, self._sys)
        reader.settings = settings(self._nvml, handle, here) if handle.card is not None else ()
        return reader

    def _used(self) -> list[_Watched]:
        """Return the cards to read, in the order of NVML. Who has none yet looks again at every reading."""
        if self._watched:
            return self._watched
        by_handle = {reader.handle.name: reader for reader in self._readers}
        alive = [reader.handle for reader in self._readers if reader.handle.card is not None]
        kept = pick(alive, lambda handle: by_handle[handle.name].uses_card(), bool(self._cards))
        lost = [reader.handle for reader in self._readers if reader.handle.card is None]
        readers = [by_handle[handle.name] for handle in (*kept, *lost)] if kept else []
        self._watched = [_Watched(reader, Errand(reader.read)) for reader in readers]
        return self._watched

    def _take(self, lines: Lines, watched: _Watched, seconds: float) -> None:
        """Add what a card brought, or that it did not come back."""
        name = watched.reader.handle.name
        found = watched.errand.back(seconds)
        if found is None:
            reason = f"it did not answer within {LIMIT:g} s, as a card that hangs"
            lines.gap(f"GPU {name}", reason, errors.cure(15))
            return
        for key, value, extra in found:
            lines.add(key, value, *(() if key == GAP else (("gpu", name),)), *extra)

    def _xids(self, lines: Lines) -> None:
        if self._xid is None:
            return
        for (index, xid), count in self._xid.counts().items():
            lines.add("host_gpu_xids_total", float(count), ("gpu", str(index)), ("xid", str(xid)))
        for index in self._xid.deaf:
            lines.gap(f"GPU {index}", f"Xid events: {errors.UNSUPPORTED}")


def _import() -> Any:
    """Import nvidia-ml-py; the old package of the same name warns on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pynvml
        except ImportError:
            raise NO_PACKAGE from None
    return pynvml
