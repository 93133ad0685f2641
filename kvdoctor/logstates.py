"""States that a report names by what is asked: nothing at all, or as much as is served."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor.logview import LogView
from kvdoctor.service import Objective

KEPT = 0.9
"""Share of the requests offered that must be served: the last ones of a run end after it."""


def nothing_asked(view: LogView) -> bool:
    """Say whether nothing is known to be asked: busy CPUs and GPUs then spin (rule 11)."""
    spins = view.of(lm.CPU_BUSY) or view.of(lm.GPU_BUSY)
    held = any(gauge is not None and gauge.peak > 0 for gauge in (view.running, view.waiting))
    told = (lm.TTFT, lm.ITL, lm.SERVED, lm.REQUEST_TIME, lm.WALL)
    return bool(view.of(lm.NOTHING_ASKED) and spins) and not (
        held or view.flowing or any(view.of(q) for q in told)
    )


def keeps_up(view: LogView, objective: Objective) -> bool:
    """Say whether as much is served as arrives, in time, and nothing fails."""
    offered, served, ttft = view.values(lm.OFFERED), view.values(lm.SERVED), view.values(lm.TTFT)
    if len(offered) != 1 or len(served) != 1 or not ttft or max(ttft) > objective.ttft_p95:
        return False
    failed = view.values(lm.FAILED)
    return served[0] >= KEPT * offered[0] > 0 and not (failed and failed[0])
