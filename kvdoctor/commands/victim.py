"""Watching the service while a probe runs: its own latency, and a stop when it suffers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kvdoctor.commands.output import print_note
from kvdoctor.commands.victim_place import Victim
from kvdoctor.secrets import key_of, mask_url
from kvdoctor.units import duration

WORSE = 1.5
"""Mean ITL over that before the probe from which it is stopped."""
UNSTEADY = 3.0
"""A service whose own seconds differ is given the worst of them before the probe, up to this many times their mean."""
LEAST_S = 0.005
"""Seconds by which it must have grown too: below that a user sees nothing."""
PERIOD_S = 1.0
BEFORE, LONGEST_BEFORE = 3, 8
"""Seconds that are looked at before the probe begins; more where little decodes."""
LEAST_GAPS = 20
"""Output gaps without which their mean says nothing: seconds are added up until there are so many."""
SILENT = 2
"""Periods in a row without an answer after which the service is taken to suffer."""


@dataclass(frozen=True, slots=True)
class Second:
    """One look of a second."""

    gaps: float = 0.0
    """Output gaps that ended in it."""
    total: float = 0.0
    """Their seconds."""
    answers: bool = True
    since_start: float | None = None
    """Mean ITL since the engine started."""


@contextmanager
def watch(victim: Victim | None) -> Iterator[Watcher | None]:
    """Watch a service while the block runs. None where no service is named, or none with a page."""
    if victim is None or victim.address is None:
        if victim is not None:
            print_note("the service has no metrics page that may be read, so its latency is not watched")
        yield None
        return
    address, key = victim.address, key_of() if victim.is_given else None
    watcher = Watcher(lambda: look(address, key))
    print_note(f"{mask_url(address)}: {watcher.says}")
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.ended.set()
        thread.join(2 * PERIOD_S)


def _mean(seconds: Sequence[Second]) -> float | None:
    """Return the mean ITL over some seconds; None where too little decoded."""
    gaps = sum(second.gaps for second in seconds)
    return sum(second.total for second in seconds) / gaps if gaps >= LEAST_GAPS else None


class Watcher:
    """Compares the mean ITL of each second with that before the probe. `read` takes a second."""

    def __init__(self, read: Callable[[], Second]) -> None:
        """Look at the seconds before the probe; an empty `reason` means that nothing speaks against it."""
        self._read = read
        self.reason, self.ended, self._silent = "", threading.Event(), 0
        self._recent: list[Second] = []
        seen: list[Second] = []
        while len(seen) < BEFORE or (_few(seen) and len(seen) < LONGEST_BEFORE):
            seen.append(read())
        self._answered = any(second.answers for second in seen)
        self.is_busy = any(second.gaps for second in seen)
        self.before = usual = _mean(seen)
        if usual is None:
            usual = next((second.since_start for second in seen if second.since_start is not None), None)
        worst = max((mean for second in seen if (mean := _mean([second])) is not None), default=0.0)
        self.limit = None if usual is None else _limit(usual, worst)

    @property
    def says(self) -> str:
        """Say what is watched, for people."""
        if not self._answered:
            return "its page does not answer, so its latency is not watched"
        if self.limit is None:
            return "nothing decodes now nor did before, so its latency has no measure; its page is watched"
        if self.before is None:
            return (
                f"nothing decodes now; the probe stops where its mean ITL rises above {duration(self.limit)}"
            )
        return (
            f"mean ITL {duration(self.before)}; the probe stops where it rises above {duration(self.limit)}"
        )

    def stop(self) -> str:
        """Return the reason to stop, or nothing."""
        return self.reason

    def run(self) -> None:
        """Look until told to end, or until the service suffers."""
        while not self.ended.is_set() and not self.reason:
            self.look()

    def look(self) -> None:
        """Compare one more second, together with those before it where little decodes."""
        now = self._read()
        self._silent = 0 if now.answers else self._silent + 1
        if self._silent >= SILENT and self._answered:
            self.reason = "the service's metrics page no longer answers"
        self.is_busy = self.is_busy or bool(now.gaps)
        self._recent.append(now)
        mean = _mean(self._recent)
        if mean is None:
            return
        self._recent.clear()
        if self.limit is not None and mean > self.limit:
            before = f"from {duration(self.before)}" if self.before is not None else "with the first load"
            self.reason = f"the service's mean ITL rose {before} to {duration(mean)}"


def _few(seen: Sequence[Second]) -> bool:
    """Say whether something decodes, and too little yet to tell its mean."""
    return _mean(seen) is None and any(second.gaps for second in seen)


def _limit(usual: float, worst: float) -> float:
    """Return the mean ITL of a second above which the service suffers."""
    return max(WORSE * usual, usual + LEAST_S, min(worst, UNSTEADY * usual))


def look(url: str, key: str | None = None) -> Second:
    """Read a page at both ends of a second and return what the engine did in it."""
    from kvdoctor.clock import SystemClock
    from kvdoctor.collectors.prometheus import Endpoint
    from kvdoctor.engines import recognise
    from kvdoctor.record import record
    from kvdoctor.timeline import Timeline
    from kvdoctor.traffic import traffic

    place = Endpoint(url, api_key=key)
    recording = record([place], seconds=PERIOD_S, interval_s=PERIOD_S, clock=SystemClock())
    source = next((s for s in recording.sources if len(s.at) > 1), None)
    if source is None:
        return Second(answers=False)
    engine = recognise(c.name for c in source.columns)
    if engine is None:
        return Second()
    last = len(source.at) - 1
    now, life = (traffic(Timeline(source, engine, first, last)).itl for first in (0, -1))
    return Second(
        now.count if now is not None else 0.0,
        now.total if now is not None else 0.0,
        since_start=life.mean if life is not None and life.count >= LEAST_GAPS else None,
    )
