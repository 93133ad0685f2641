"""Small sums that several causes make."""

from __future__ import annotations

from kvdoctor.case import Case


def seconds_per_computed_token(case: Case) -> float | None:
    """Seconds of prefill per token computed, from this window; None where nothing was computed."""
    t = case.traffic
    if not t.computed or not t.first_tokens or not case.prefill:
        return None
    return case.prefill * t.first_tokens / t.computed
