"""Watching the service while a probe runs: its own latency, and a stop when it suffers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvdoctor.commands.output import print_note
from kvdoctor.errors import KvdoctorError
from kvdoctor.units import duration

WORSE = 1.5
"""Mean ITL over that before the probe from which it is stopped."""
LEAST_S = 0.005
"""Seconds by which it must have grown too: below that a user sees nothing."""
PERIOD_S = 1.0
LEAST_GAPS = 20
"""Output gaps in a period without which its mean says nothing."""


@contextmanager
def watch(url: str | None, pid: int | None) -> Iterator[Callable[[], str] | None]:
    """Yield what a probe asks about twice a second: a reason to stop, or nothing. None where no service is named."""
    address = url or (_page_of(pid) if pid is not None else None)
    if address is None:
        yield None
        return
    watcher = Watcher(lambda: mean_itl(address))
    if watcher.before is None:
        print_note(f"{address}: nothing decodes now, so its latency is not watched")
        yield None
        return
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    try:
        yield lambda: watcher.reason
    finally:
        watcher.ended.set()
        thread.join(2 * PERIOD_S)


class Watcher:
    """Compares the mean ITL of each second with that before the probe. `read` takes a second and may return None."""

    def __init__(self, read: Callable[[], float | None]) -> None:
        self._read = read
        self.before, self.reason, self.ended = read(), "", threading.Event()

    def run(self) -> None:
        """Look until told to end, or until the service suffers."""
        while not self.ended.is_set() and not self.reason:
            self.look()

    def look(self) -> None:
        """Compare one more second."""
        now = self._read()
        if now is None or self.before is None:
            return
        if now > WORSE * self.before and now - self.before > LEAST_S:
            rise = f"from {duration(self.before)} to {duration(now)}"
            self.reason = f"stopped: the service's mean ITL rose {rise} while it ran"


def mean_itl(url: str) -> float | None:
    """Return the mean ITL over one second in seconds; None where too little decodes, or nothing answers."""
    from kvdoctor.clock import SystemClock
    from kvdoctor.collectors.prometheus import Endpoint
    from kvdoctor.engines import recognise
    from kvdoctor.record import record
    from kvdoctor.timeline import Timeline
    from kvdoctor.traffic import traffic

    recording = record([Endpoint(url)], seconds=PERIOD_S, interval_s=PERIOD_S, clock=SystemClock())
    source = next((s for s in recording.sources if len(s.at) > 1), None)
    engine = recognise(c.name for c in source.columns) if source is not None else None
    if source is None or engine is None:
        return None
    itl = traffic(Timeline(source, engine, 0, len(source.at) - 1)).itl
    return itl.mean if itl is not None and itl.count >= LEAST_GAPS else None


def _page_of(pid: int) -> str | None:
    """Return the address of a process's metrics page; KvdoctorError where there is no such process."""
    from kvdoctor.target.look import look

    target = look().at(pid)
    if target is None:
        raise KvdoctorError(f"there is no process {pid}", "kvdoctor targets lists the engines here")
    return target.page.url if target.page.readable else None
