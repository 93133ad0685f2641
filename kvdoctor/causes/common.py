"""Small sums and gaps that several causes share."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.model import Gap
from kvdoctor.steps import PACES, prefill_share, small_steps

NO_TRAFFIC = Gap(
    "traffic", "the window holds nothing to judge this by", "run again under the usual load, or for longer"
)
NOT_EXPORTED = Gap(
    "counters", "this release, or this configuration, does not export them", "upgrade the engine"
)
NO_TIER = Gap("kv tiers", "no KV connector reports loads", "nothing to do when no tier is configured")


def seconds_per_computed_token(case: Case) -> float | None:
    """Seconds of prefill per token computed, from this window; None where nothing was computed."""
    t = case.traffic
    if not t.computed or not t.first_tokens or not case.prefill:
        return None
    return case.prefill * t.first_tokens / t.computed


def queue_behind_prefill(case: Case) -> float:
    """Share of the queue that prefill makes: the time that it takes, from `PACES` on, whatever those who wait lack.

    A pool fills up when requests leave slowly because the steps are full of prefill, and a larger one would compute
    no prompt faster. Where many sequences were preempted the prefill is in part the pool's own doing, and waiting
    for blocks is not counted.
    """
    busy = prefill_share(case.traffic) or 0.0
    if busy < PACES or small_steps(case.traffic):
        return 0.0
    return busy * (1 - case.waits.blocks) if recomputing(case) else busy


REDONE = 0.1
"""Tokens computed again after preemptions over those computed once, up to which prefill is not the pool's doing."""


def recomputing(case: Case) -> bool:
    """Say whether so many sequences were preempted that computing them again may be a part of prefill."""
    t = case.traffic
    if not t.preemptions or t.context is None or not t.computed:
        return bool(t.preemptions)
    return t.preemptions * t.context > REDONE * t.computed


def more_room(case: Case, otherwise: str) -> str:
    """How to make the pool larger: by lifting what holds it, where something does."""
    held = case.held_blocks
    if held is None:
        return otherwise
    return f"lift --num-gpu-blocks-override, which holds the pool at {held:,} blocks whatever memory there is"


TAIL_GAPS = 5
"""Gaps above twice the mode below which a tail is an accident."""
SMALL_PIECE = 256 * 1024
"""Bytes of one load or descriptor below which posting and fixed costs, not the link, set its time: RDMA reaches a
quarter of its rate at 64 KiB and nearly all of it at 1 MiB (roofline guide, section 7)."""
FROM_OUTSIDE = 0.75
"""Share of the prompt tokens that an outer tier delivers, from which their loads may be most of what prefill takes: it
suffices that a token loads three times as fast as it computes."""
UNCOUNTED = Gap(
    "loads",
    "most prompt tokens come from an outer tier, and how long their loads take is not counted",
    "read the KV layer's own metrics or log beside the engine's (LMCache, Mooncake, the connector's lines)",
)
_COUNTED = (m.LOAD_SECONDS, m.TIER_READ_SECONDS, m.TRANSFER_SECONDS)


def unseen_loads(case: Case) -> bool:
    """Say whether prefill may be loading: a connector without a clock delivers most of the prompts, and none of them
    is deferred meanwhile, so that its loads lie inside prefill."""
    t = case.traffic
    if (t.external_delivered or 0.0) < FROM_OUTSIDE * t.prompt_tokens or not t.external_delivered:
        return False
    return not (t.deferred is not None and t.deferred.peak) and not any(map(case.timeline.delta, _COUNTED))


def per_request(case: Case, total: float) -> float:
    """A total of the window over its first tokens."""
    return total / case.traffic.first_tokens if case.traffic.first_tokens else 0.0


def _tokens_from_outside(case: Case) -> float:
    """Prompt tokens that came from CPU memory, disk or an outer tier without a name."""
    named = (m.CACHED_HOST, m.CACHED_DISK, m.CACHED_EXTERNAL)
    counted = sum(case.timeline.delta(q) or 0.0 for q in named)
    return counted or case.traffic.external_hits or 0.0


def recompute_seconds(case: Case) -> float | None:
    """Seconds of prefill a request would need for the tokens it loaded; None where prefill was not seen."""
    per_token = seconds_per_computed_token(case)
    return None if per_token is None else per_request(case, _tokens_from_outside(case)) * per_token
