"""From the engine's reports to the metrics: what fills at the first token, what with each token, what at the end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kvdoctor.lab.families import Families, Maker, Offload, Outside, Transfers
from kvdoctor.lab.messages import Move, Report, Sources, Standing, Update

_ENDS = ("stop", "length", "abort")


@dataclass(slots=True)
class Life:
    """A request as the front end sees it. Times are monotonic seconds."""

    arrival: float
    prompt: int
    tokens: int = 0
    last: float = 0.0
    """When its last token was made."""
    computed: int = 0
    cached: int = 0


class Metrics:
    """All metrics of one server. `tiers` are the kinds of its tiers: only theirs are exported."""

    def __init__(self, model: str, tiers: Collection[str] = ()) -> None:
        self.make = Maker(model)
        self.families = Families(self.make)
        self.outside = Outside(self.make) if tiers else None
        self.offload = Offload(self.make) if {"host", "file"} & set(tiers) else None
        self.transfers = Transfers(self.make) if "remote" in tiers else None
        for reason in _ENDS:
            self.families.success.labels(**self.make.own(finished_reason=reason))
        self._standing(Standing())

    def report(self, report: Report) -> None:
        """Take in all of a report but its requests."""
        found = self.families
        self._standing(report.standing)
        found.preemptions.inc(report.preemptions)
        if report.tokens:
            found.steps.observe(report.tokens)
        for admitted in report.admitted:
            found.queries.inc(admitted.prompt)
            found.hits.inc(admitted.local_hits)
            if self.outside:
                self.outside.queries.inc(admitted.outside_queries)
                self.outside.hits.inc(admitted.promised)
        if self.outside:
            for seconds in report.lookups:
                self.outside.lookup.observe(seconds)
        for move in report.moves:
            self._move(move)

    def update(self, update: Update, life: Life, now: float) -> None:
        """Take in a token, and the end of a request. `now` is when the front end heard of it."""
        found = self.families
        if update.token is not None:
            found.generated.inc()
            if life.tokens:
                found.itl.observe(update.at - life.last)
            else:
                self._first(update, life, now)
            life.tokens += 1
            life.last = update.at
        if update.reason:
            self._end(update, life, now)

    def _first(self, update: Update, life: Life, now: float) -> None:
        self.families.ttft.observe(now - life.arrival)
        self.families.prompt.inc(life.prompt)
        sources = update.sources or Sources(life.prompt, 0, ())
        life.computed, life.cached = sources.computed, life.prompt - sources.computed
        by_source, cached = self.families.prompt_source, self.families.cached_source
        outside = sum(count for _, count in sources.outside)
        by_source.labels(**self.make.own(source="local_compute")).inc(sources.computed)
        by_source.labels(**self.make.own(source="local_cache_hit")).inc(sources.local)
        by_source.labels(**self.make.own(source="external_kv_transfer")).inc(outside)
        cached.labels(**self.make.own(source="device")).inc(sources.local)
        for name, count in sources.outside:
            cached.labels(**self.make.own(source=name)).inc(count)

    def _end(self, update: Update, life: Life, now: float) -> None:
        found = self.families
        found.success.labels(**self.make.own(finished_reason=update.reason)).inc()
        if update.reason == "abort" or not update.first:
            return
        found.e2e.observe(now - life.arrival)
        found.queue.observe(update.scheduled - update.queued)
        found.prefill.observe(update.first - update.scheduled)
        found.decode.observe(life.last - update.first)
        found.prompt_length.observe(life.prompt)
        found.output_length.observe(life.tokens)
        found.computed.observe(life.computed)
        found.request_preemptions.observe(update.preemptions)
        if life.tokens > 1:
            found.tpot.observe((life.last - update.first) / (life.tokens - 1))

    def _standing(self, standing: Standing) -> None:
        found, own = self.families, self.make.own
        found.running.set(standing.running)
        found.waiting.set(standing.waiting)
        found.usage.set(standing.usage)
        reasons = {"capacity": standing.waiting - standing.deferred, "deferred": standing.deferred}
        for reason, count in reasons.items():
            found.waiting_reason.labels(**own(reason=reason)).set(count)
        stages = {
            "waiting_to_start": 0,
            "in_progress": standing.deferred,
            "completed_waiting": standing.arrived,
        }
        for stage, count in stages.items() if self.outside else ():
            found.fetching.labels(**own(stage=stage)).set(count)

    def _move(self, move: Move) -> None:
        if move.kind == "remote":
            if self.transfers and move.is_load:
                self.transfers.size.observe(move.size)
                self.transfers.seconds.observe(move.seconds)
                self.transfers.pieces.observe(move.pieces)
        elif self.offload and move.is_load:
            self.offload.load_bytes.inc(move.size)
            self.offload.load_time.inc(move.seconds)
            self.offload.load_size.observe(move.size)
        elif self.offload:
            self.offload.store_bytes.inc(move.size)
            self.offload.store_time.inc(move.seconds)
