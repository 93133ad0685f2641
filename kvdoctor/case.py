"""What a cause may read: the ledgers, the traffic, the machine, and the series behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kvdoctor import metrics as m
from kvdoctor.hostview import HostView
from kvdoctor.joined import Joined
from kvdoctor.ledger import (
    IN_STEP,
    KV_STALL,
    PREFILL,
    STALL,
    STEP_UNDER_WAY,
    UNEXPLAINED,
    itl_ledger,
    ttft_ledger,
)
from kvdoctor.machine import Machine
from kvdoctor.model import Evidence, Ledger
from kvdoctor.quantity import Quantity
from kvdoctor.service import Objective
from kvdoctor.steps import prefill_share
from kvdoctor.timeline import Timeline
from kvdoctor.traffic import Traffic, traffic
from kvdoctor.waiting import WaitShares, wait_shares

COST = 0.05
"""Share of a request's seconds below which waiting, stalling, loading or recomputing is small change (rule 3)."""
OF_TTFT = 0.25
"""Share of TTFT from which a wait is worth a cause although outputs are long: a quarter, as for the host."""
NOTICED = 0.05
"""Seconds under which a share of TTFT is not worth a cause (rule 3 forgives as much avoidable prefill)."""


@dataclass(frozen=True, slots=True)
class Case:
    """One engine in one window."""

    timeline: Timeline
    traffic: Traffic
    machine: Machine
    objective: Objective
    ttft: Ledger | None
    itl: Ledger | None
    waits: WaitShares
    facts: dict[str, str] = field(default_factory=dict)
    """What the user told, for example `link` in GB/s."""
    host: HostView | None = None
    """What the host tells of this engine's processes; None when it was watched from afar."""

    @property
    def gaps(self) -> float:
        """Output gaps of a request, by which an ITL part becomes seconds of a request."""
        return self.traffic.gaps_per_request

    @property
    def currency(self) -> float:
        """Seconds of a mean request: TTFT + ITL x gaps (rule 1). With no first token, the ITL alone."""
        first = self.ttft.seconds if self.ttft else 0.0
        if self.itl is None:
            return first
        return first + self.itl.seconds * (self.gaps or 1.0)

    @property
    def batch(self) -> float | None:
        """Mean number of sequences in decode on one rank; None where nothing decodes."""
        return self.traffic.batch_of_a_rank(len(self.timeline.ranks))

    @property
    def single(self) -> bool:
        """Say whether requests end with their first token, as those of a scorer, or of the prefill side of a pair."""
        t = self.traffic
        return t.first_tokens > 0 and not self.gaps and t.generated <= t.first_tokens

    @property
    def multimodal(self) -> float:
        """Images, sounds and videos of the window, whose encoder runs before the first token; 0 where not told."""
        return self.timeline.delta(m.MM_QUERIES) or 0.0

    @property
    def held_blocks(self) -> int | None:
        """Blocks at which vLLM's --num-gpu-blocks-override holds the pool, whatever memory there is."""
        told = self.timeline.label(m.CACHE_CONFIG, "num_gpu_blocks_override") or ""
        return int(told) if told.isdigit() else None

    @property
    def untold(self) -> bool:
        """Say whether nothing tells what TTFT is made of: neither queue nor prefill."""
        parts = self.ttft.top() if self.ttft else ()
        return bool(parts) and all(part.name == UNEXPLAINED for part in parts)

    @property
    def prefill(self) -> float:
        """Seconds of prefill in a mean TTFT."""
        return self.ttft.part(PREFILL) if self.ttft else 0.0

    @property
    def prefill_cost(self) -> float:
        """Seconds of a mean request that prompt computing costs: its own prefill, the wait for a step that
        is busy with others' prefill, and the decode steps that such prefill stretches."""
        behind = self.ttft.part(STEP_UNDER_WAY) * (prefill_share(self.traffic) or 0.0) if self.ttft else 0.0
        beside = self.itl.part(IN_STEP) * self.gaps if self.itl else 0.0
        return self.prefill + behind + beside

    @property
    def stall(self) -> float:
        """Seconds of a mean request spent waiting after preemptions."""
        return self.itl.part(STALL) * self.gaps if self.itl else 0.0

    @property
    def kv_stall(self) -> float:
        """Seconds of a mean request that its decode waits for KV from outer tiers."""
        return self.itl.part(KV_STALL) * self.gaps if self.itl else 0.0

    def share(self, seconds: float) -> float:
        """Return seconds of a request as a share of the whole request, 0 when nothing was served."""
        return seconds / self.currency if self.currency else 0.0

    def of_ttft(self, seconds: float) -> float:
        """Return seconds as a share of the mean TTFT, 0 without one."""
        return seconds / self.ttft.seconds if self.ttft and self.ttft.seconds else 0.0

    def matters(self, seconds: float) -> bool:
        """Say whether seconds of waiting before the first token are worth a cause: they are a share of the
        request, or a large share of TTFT and long enough for a person to notice."""
        large = self.of_ttft(seconds) >= OF_TTFT and seconds >= NOTICED
        return self.share(seconds) >= COST or large

    def evidence(
        self,
        name: str,
        value: float | None,
        unit: str = "",
        *,
        threshold: float | None = None,
        of: tuple[Quantity, ...] = (),
    ) -> Evidence:
        """Build one line of evidence whose source is the raw names of the quantities it was worked out from."""
        source = ", ".join(dict.fromkeys(filter(None, (self.timeline.names(q) for q in of))))
        known = value if value is not None and math.isfinite(value) else None
        return Evidence(name, known, unit, threshold, source)


def load_seconds(timeline: Timeline, traffic: Traffic) -> float:
    """Seconds of KV loading per request that no queue time can hold: engines that load inside prefill.

    Where the engine counts deferred requests, its own loads are asynchronous and lie inside its queue time;
    those of a layer in its workers do only if requests are deferred at all.
    """
    seconds = timeline.delta(m.LOAD_SECONDS) or 0.0
    deferred = timeline.gauge(m.WAITING_DEFERRED)
    behind = deferred is not None and (not _by_layer(timeline, m.LOAD_SECONDS) or deferred.peak > 0)
    if not traffic.first_tokens or behind:
        return 0.0
    return seconds / traffic.first_tokens


def _by_layer(timeline: Timeline, quantity: Quantity) -> bool:
    return isinstance(timeline, Joined) and not timeline.own(quantity)


def transfer_wait(timeline: Timeline, traffic: Traffic) -> float | None:
    """Mean seconds that a request spent on transfers from other instances; None without transfers.

    One request may need one transfer a rank, side by side: the mean duration then counts once.
    """
    seconds, number = timeline.delta(m.TRANSFER_SECONDS), timeline.delta(m.TRANSFERS)
    if not seconds or not number or not traffic.first_tokens:
        return None
    return seconds / number * min(1.0, number / traffic.first_tokens)


def decode_loads(timeline: Timeline, traffic: Traffic, machine: Machine) -> float:
    """Seconds per output gap that loads took which no prompt asked for: for sequences already in decode.

    Of the bytes loaded, those of prompt tokens promised or come from outside are taken off; where a token's
    bytes are unknown and prompts did load, nothing is left. Every sequence in the batch may wait for a load.
    """
    size, seconds = (
        sum(timeline.delta(q) or 0.0 for q in pair)
        for pair in ((m.LOAD_BYTES, m.TIER_READ_BYTES), (m.LOAD_SECONDS, m.TIER_READ_SECONDS))
    )
    named = [timeline.delta(q) or 0.0 for q in (m.CACHED_HOST, m.CACHED_DISK, m.CACHED_EXTERNAL)]
    told = (traffic.external_hits, traffic.external_delivered)
    if not size or not seconds or traffic.itl is None or not traffic.itl.count or None in told:
        return 0.0
    tokens = max(sum(named), *(value or 0.0 for value in told))
    read = machine.step(1.0, 1.0)
    each = read.kv if read is not None else 0.0
    share = max(0.0, 1 - tokens * each / size) if each else float(not tokens)
    return seconds * share * max(1.0, traffic.decode_batch or 1.0) / traffic.itl.count


def build_case(
    timeline: Timeline,
    machine: Machine,
    objective: Objective,
    facts: dict[str, str] | None = None,
    host: HostView | None = None,
) -> Case:
    """Work out the traffic, both ledgers and the reasons for waiting of one engine in one window."""
    seen = traffic(timeline)
    machine = machine.at(
        seen.batch_of_a_rank(len(timeline.ranks)), seen.context, seen.tail.typical if seen.tail else None
    )
    return Case(
        timeline=timeline,
        traffic=seen,
        machine=machine,
        objective=objective,
        ttft=ttft_ledger(seen, load=load_seconds(timeline, seen), transfer=transfer_wait(timeline, seen)),
        itl=itl_ledger(seen, machine, len(timeline.ranks), loads=decode_loads(timeline, seen, machine)),
        waits=wait_shares(timeline, seen),
        facts=dict(facts or {}),
        host=host,
    )
