"""Small sums and gaps that several causes share."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.model import Gap

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
