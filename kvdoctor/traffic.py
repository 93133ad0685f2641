"""What went through one engine in a window: requests, tokens, waits, and whether its histograms may be mixed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor import pace
from kvdoctor.course import Gauge
from kvdoctor.histogram import Histogram, Split, split_tail
from kvdoctor.quantity import Quantity
from kvdoctor.timeline import Timeline

COHORT_REQUESTS = 20
"""Finished requests from which the at-the-end histograms speak for the window (rule 4 of the ledger)."""
COHORT_SHARE = 0.5
"""Mean end-to-end time over window length, above which those histograms describe older requests."""
SHORT_REQUESTS = 0.1
"""Mean end-to-end time over window below which a residual of TTFT is not the drift of its cohort."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Differences over the window, ranks together. Means are None where nothing was counted."""

    seconds: float
    first_tokens: float
    finished: float
    generated: float
    prompt_tokens: float
    computed: float | None
    queries: float | None
    hits: float | None
    external_hits: float | None
    external_delivered: float | None
    preemptions: float
    running: Gauge | None
    waiting: Gauge | None
    deferred: Gauge | None
    """Waiting on KV that is on its way; where the engine does not say so much, all deferred requests."""
    usage: Gauge | None
    ttft: Histogram | None
    itl: Histogram | None
    queue: Histogram | None
    prefill: Histogram | None
    e2e: Histogram | None
    steps: Histogram | None
    prefill_guess: float | None
    """Mean prefill of whatever finished in the window, else since the start: of other requests, maybe."""
    pool_tokens: float | None
    block_size: float | None
    lifetime: bool
    decoding: float = 0.0
    """Seconds of all decode steps, of engines that run prefill and decode one after the other and time each."""
    at_finish: bool = False
    """Tokens are counted when a request ends: they are of those that finished, not of those that began."""
    gaps_of_requests: bool = False
    """The gaps are spread as the means of requests: they have no tail to read."""
    gaps_seen: bool = True
    """The gaps are those between outputs: what the steps of others' prompts add is in them."""
    kv_from_outside: bool = True
    """Whether any KV came from another instance or an outer tier, as far as anything tells."""

    @property
    def cohort(self) -> bool:
        """Say whether queue, prefill and decode histograms describe the requests whose TTFT is counted."""
        if self.lifetime:
            return self.finished > 0
        if self.finished >= COHORT_REQUESTS and self.e2e is not None and self.e2e.mean is not None:
            return self.e2e.mean < COHORT_SHARE * self.seconds
        return self.same_requests

    @property
    def same_requests(self) -> bool:
        """Say whether the requests that finished are exactly those that began: the engine was empty at both ends."""
        ends = (self.running, self.waiting)
        empty = all(g is not None and g.first == g.last == 0 for g in ends)
        return empty and self.finished == self.first_tokens > 0

    @property
    def short(self) -> bool:
        """Say whether requests are so short against the window that those counted at either end hardly differ."""
        e2e = self.e2e.mean if self.e2e is not None else None
        return e2e is not None and e2e < SHORT_REQUESTS * self.seconds

    @property
    def together(self) -> bool:
        """Say whether requests were ever seen side by side: one alone never meets a step under way."""
        peaks = [g.peak for g in (self.running, self.waiting) if g is not None]
        return not peaks or sum(peaks) > 1

    @property
    def outputs_per_request(self) -> float | None:
        """Mean output tokens of a request: generated over begun, which agree while the load is steady."""
        of = self.finished if self.at_finish else self.first_tokens
        return self.generated / of if of else None

    @property
    def gaps_per_request(self) -> float:
        """Mean number of output gaps of a request; 0 where nothing decodes."""
        if self.itl is None or not self.first_tokens:
            return 0.0
        return self.itl.count / self.first_tokens

    @property
    def prompt_per_request(self) -> float | None:
        """Mean prompt tokens of a request, cached ones included."""
        return self.prompt_tokens / self.first_tokens if self.first_tokens else None

    @property
    def prefill_seconds(self) -> float | None:
        """Seconds from scheduled to first token of all requests that began in the window; None when not told.

        The clock of one is read when it ends, and that of an aborted one never: others may stand for those. Where
        batches of prefill are timed, all are.
        """
        if self.prefill is None or self.prefill.mean is None:
            return None
        begun = 0.0 if self.decoding else self.first_tokens
        return self.prefill.mean * max(begun, self.prefill.count)

    @property
    def context(self) -> float | None:
        """Mean live context of a decoding sequence: its prompt and half of its output."""
        if self.prompt_per_request is None or self.outputs_per_request is None:
            return None
        return self.prompt_per_request + self.outputs_per_request / 2

    @property
    def decode_batch(self) -> float | None:
        """Mean number of sequences in decode, by Little's law: output gaps per second x mean gap."""
        if self.itl is None or not self.itl.count or not self.seconds > 0:
            return None
        return self.itl.total / self.seconds

    def batch_of_a_rank(self, ranks: int) -> float | None:
        """Mean number of sequences in decode on one of `ranks`: at least the one that is there."""
        return max(1.0, self.decode_batch / ranks) if self.decode_batch else None

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over queried tokens in the window; None over nothing, which is not 0%."""
        if not self.queries or self.hits is None:
            return None
        return self.hits / self.queries

    @property
    def little_queue(self) -> float | None:
        """Mean wait by Little's law: mean waiting over the rate of first tokens. Preempted ones count again."""
        if self.waiting is None or not self.first_tokens or not self.seconds > 0:
            return None
        return self.waiting.mean * self.seconds / self.first_tokens

    @property
    def tail(self) -> Split | None:
        """The ITL histogram cut at twice its mode."""
        if self.itl is None or not self.gaps_of_requests or self.itl.mean is None:
            return split_tail(self.itl) if self.itl is not None else None
        return Split(self.itl.mean, math.inf, self.itl.count, 0.0, 0.0)


def _delta(timeline: Timeline, quantity: Quantity) -> float:
    return timeline.delta(quantity) or 0.0


def _number(text: str | None) -> float | None:
    """Read a size from a label; None for what is no size."""
    try:
        number = float(text) if text else 0.0
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def kv_in_flight(timeline: Timeline) -> Quantity:
    """Choose the gauge of waits for KV. A deferred request stays deferred when its KV has come and it lacks
    only a slot, so the loads in progress are the better witness where they are told."""
    return m.KV_FETCH_IN_PROGRESS if timeline.has(m.KV_FETCH_IN_PROGRESS) else m.WAITING_DEFERRED


def pool_tokens(timeline: Timeline) -> float | None:
    """Tokens that the KV pool of one rank holds; the engine's own figure, else blocks x block size."""
    stated = _number(timeline.label(m.CACHE_CONFIG, "kv_cache_size_tokens"))
    blocks = _number(timeline.label(m.CACHE_CONFIG, "num_gpu_blocks"))
    size = _number(timeline.label(m.CACHE_CONFIG, "block_size"))
    told = timeline.gauge(m.POOL_TOKENS)
    each = told.last / len(timeline.ranks) if told is not None and told.last > 0 else None
    return stated or (blocks * size if blocks and size else each)


def block_size(timeline: Timeline) -> float | None:
    """Tokens of a KV block; None when not told."""
    told, stated = timeline.gauge(m.BLOCK_SIZE), _number(timeline.label(m.CACHE_CONFIG, "block_size"))
    return stated or (told.last if told is not None and told.last > 0 else None)


def _guess(timeline: Timeline, quantity: Quantity) -> float | None:
    """Mean of a histogram in the window, else since the engine started; None where nothing was observed."""
    for histogram in (timeline.histogram(quantity), timeline.lifetime(quantity)):
        if histogram is not None and histogram.mean is not None:
            return histogram.mean
    return None


_OUTSIDE = (m.EXTERNAL_HITS, m.PROMPT_EXTERNAL, m.TRANSFER_SECONDS, m.LOAD_SECONDS, m.TIER_READ_SECONDS)


def traffic(timeline: Timeline) -> Traffic:
    """Take the differences of one engine's counters and histograms over its window."""
    ttft = pace.first_tokens(timeline)
    lifetime = timeline.first < 0
    return Traffic(
        seconds=math.nan if lifetime else timeline.seconds,
        first_tokens=ttft.count if ttft else _delta(timeline, m.FINISHED),
        finished=_delta(timeline, m.FINISHED),
        generated=_delta(timeline, m.GENERATED),
        prompt_tokens=_delta(timeline, m.PROMPT_TOKENS),
        computed=timeline.delta(m.PROMPT_COMPUTED),
        queries=timeline.delta(m.PREFIX_QUERIES),
        hits=timeline.delta(m.PREFIX_HITS),
        external_hits=timeline.delta(m.EXTERNAL_HITS),
        external_delivered=timeline.delta(m.PROMPT_EXTERNAL),
        preemptions=_delta(timeline, m.PREEMPTIONS),
        running=timeline.gauge(m.RUNNING),
        waiting=timeline.gauge(m.WAITING),
        deferred=timeline.gauge(kv_in_flight(timeline)),
        usage=timeline.gauge(m.KV_CACHE_USAGE),
        ttft=ttft,
        itl=pace.gaps(timeline),
        queue=timeline.histogram(m.QUEUE),
        prefill=timeline.histogram(m.PREFILL),
        e2e=timeline.histogram(m.E2E),
        steps=timeline.histogram(m.ITERATION_TOKENS),
        prefill_guess=_guess(timeline, m.PREFILL),
        pool_tokens=pool_tokens(timeline),
        block_size=block_size(timeline),
        lifetime=lifetime,
        at_finish=timeline.engine.at_finish,
        gaps_of_requests=pace.of_requests(timeline),
        decoding=timing.total if (timing := timeline.histogram(m.STEP_SECONDS)) is not None else 0.0,
        gaps_seen=timeline.has(m.ITL),
        kv_from_outside=timeline.has(m.KV_FETCH_IN_PROGRESS) or any(timeline.delta(q) for q in _OUTSIDE),
    )
