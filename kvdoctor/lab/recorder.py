"""From the steps of the engine to reports: which times and counts of a request are told, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdoctor.lab.messages import Admitted, Move, Report, Sources, Standing, Update
from kvdoctor.lab.tiering import IndexedTiers, WatchedLoader
from kvdoctor.reference.engine import Engine, Event, Kind, StepResult
from kvdoctor.reference.request import Request

_NAMES = {"host": "host", "file": "disk", "remote": "p2p"}
"""Tiers as the metrics call the sources of cached tokens."""


@dataclass(slots=True)
class _Times:
    """Monotonic seconds of a request; 0 for not yet."""

    queued: float
    scheduled: float = 0.0
    first: float = 0.0
    asked: bool = False


@dataclass(slots=True)
class _Found:
    """What one step brought."""

    admitted: list[Admitted] = field(default_factory=list)
    updates: dict[str, Update] = field(default_factory=dict)


class Recorder:
    """Remembers the requests of one engine between steps."""

    def __init__(self, engine: Engine, loader: WatchedLoader | None = None) -> None:
        self._engine = engine
        self._loader = loader
        self._times: dict[str, _Times] = {}
        self._told = Standing()
        self._stored: dict[str, tuple[int, float, int]] = {}

    def standing(self) -> Standing:
        """The gauges now."""
        scheduler = self._engine.scheduler
        return Standing(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) + len(scheduler.loading),
            deferred=len(scheduler.loading),
            arrived=sum(1 for request in scheduler.waiting if request.table),
            usage=scheduler.pool.usage,
        )

    def moment(self) -> Report | None:
        """A report of the gauges alone; None where nothing changed."""
        standing = self.standing()
        changed = standing != self._told
        self._told = standing
        return Report(standing) if changed else None

    def step(self, result: StepResult) -> Report | None:
        """A report of a step; None where nothing happened."""
        found = _Found()
        for event in result.events:
            self._event(event, found)
        report = Report(
            standing=self.standing(),
            tokens=result.prefill_tokens + result.decode_tokens,
            preemptions=len(result.plan.preempted),
            admitted=tuple(found.admitted),
            updates=tuple(found.updates.values()),
            moves=self._moves(),
            lookups=self._lookups(),
        )
        quiet = report == Report(self._told)
        self._told = report.standing
        return None if quiet else report

    def _event(self, event: Event, found: _Found) -> None:
        request = event.request
        if event.kind is Kind.QUEUED:
            self._times[request.name] = _Times(event.at)
        elif event.kind is Kind.SCHEDULED:
            self._scheduled(event, found)
        elif event.kind in (Kind.FIRST_TOKEN, Kind.TOKEN):
            found.updates[request.name] = self._token(event)
        elif event.kind is Kind.FINISHED:
            self._finished(event, found)

    def _scheduled(self, event: Event, found: _Found) -> None:
        """A request whose KV has to come first is looked up now, and counts as scheduled when it runs."""
        request, times = event.request, self._times[event.request.name]
        loading = request.name in self._engine.scheduler.loading
        if not times.asked and self._engine.scheduler.pool.caching:
            times.asked = True
            local = request.computed if loading else request.local_hits
            outside = len(request.prompt) - local if self._loader else 0
            found.admitted.append(Admitted(len(request.prompt), local, outside, request.promised))
        if not loading and not times.scheduled:
            times.scheduled = event.at

    def _token(self, event: Event) -> Update:
        request, times = event.request, self._times[event.request.name]
        is_first = event.kind is Kind.FIRST_TOKEN
        if is_first:
            times.first = event.at
        return Update(
            name=request.name,
            token=event.token,
            at=event.at,
            queued=times.queued,
            scheduled=times.scheduled,
            first=times.first,
            sources=self._sources(request) if is_first else None,
            preemptions=request.preemptions,
        )

    def _finished(self, event: Event, found: _Found) -> None:
        request = event.request
        times = self._times.pop(request.name, _Times(event.at))
        last = found.updates.get(request.name)
        found.updates[request.name] = Update(
            name=request.name,
            token=last.token if last else None,
            at=event.at,
            queued=times.queued,
            scheduled=times.scheduled,
            first=times.first,
            sources=last.sources if last else None,
            reason=request.reason,
            preemptions=request.preemptions,
        )
        if self._loader:
            self._loader.sources.pop(request.name, None)

    def _sources(self, request: Request) -> Sources:
        """Split the prompt; the first token is there, so all of it is in the pool."""
        size = self._engine.scheduler.pool.block_size
        came = self._loader.sources.get(request.name, {}) if self._loader else {}
        outside = {_NAMES[name]: blocks * size for name, blocks in came.items()}
        left = max(0, len(request.prompt) - request.local_hits - sum(outside.values()))
        return Sources(left, request.local_hits, tuple(outside.items()))

    def _moves(self) -> tuple[Move, ...]:
        """Loads that have ended, and what was stored since the last step."""
        if not self._loader:
            return ()
        moves, self._loader.moves[:] = [*self._loader.moves], []
        for tier in self._loader.tiers.levels:
            traffic = tier.traffic
            now = (traffic.stored_bytes, traffic.stored_seconds, traffic.stored_pieces)
            then = self._stored.get(tier.name, (0, 0.0, 0))
            self._stored[tier.name] = now
            if now[2] > then[2]:
                moves.append(Move(tier.name, False, now[0] - then[0], now[1] - then[1], now[2] - then[2]))
        return tuple(moves)

    def _lookups(self) -> tuple[float, ...]:
        tiers = self._loader.tiers if self._loader else None
        if not isinstance(tiers, IndexedTiers):
            return ()
        lookups, tiers.lookups = tuple(tiers.lookups), []
        return lookups
