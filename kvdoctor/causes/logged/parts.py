"""What a report says of one part of a whole: of a request, of a step, of the time to the first token."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.machine import HOST_PART, NEAR, host_subclass
from kvdoctor.causes.logged.opinion import MAIN, Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.service import Objective
from kvdoctor.units import duration, percent
from kvdoctor.waiting import FULL

BUSY_ROOF = 0.5
"""Share of cycles with tensor cores at work from which a step computes at its roof (compute's witness)."""
STALLED_TOKENS = 4
"""Times the ITL objective without a token from which a reader notices the stop (interference)."""
LEAST = 0.002
"""Seconds of the CPU's work under which no reader of an answer notices it."""
_QUEUE = (
    "see whether the pool or the limit on running sequences holds them; then raise that one, or add replicas"
)


def queue(view: LogView, objective: Objective) -> Opinion | None:
    """Most of the time to the first token is the queue, and no pool, load or transfer is told to hold requests."""
    share = max(view.values(lm.QUEUE_SHARE), default=0.0)
    waited = max(view.values(lm.QUEUED), default=0.0)
    whole = max([*view.values(lm.TTFT), *view.values(lm.REQUEST_TIME)], default=0.0)
    if share < MAIN and (
        waited < MAIN * objective.ttft_p95 or waited < MAIN * (whole or objective.ttft_p95 / MAIN)
    ):
        return None
    full = view.usage is not None and view.usage.peak >= FULL
    if full or view.preemptions or view.of(lm.LOAD_TIME) or view.of(lm.TRANSFER_TIME):
        return None
    told = percent(share) if share >= MAIN else duration(waited)
    evidence = (
        view.evidence("share of a request's time in the queue", share or None, "ratio", threshold=MAIN,
                      of=(lm.QUEUE_SHARE,)),
        view.evidence("time in the queue", waited or None, "seconds", of=(lm.QUEUED,)),
        view.evidence("time to first token, or of the request", whole or None, "seconds",
                      of=(lm.TTFT, lm.REQUEST_TIME)),
    )  # fmt: skip
    why = f"Requests spend {told} in the queue, and nothing else is told to take as long."
    return likely(Bound.QUEUEING, None, why, Grade.INFERRED, evidence, do=_QUEUE, metric=Metric.TTFT)


def prefill(view: LogView, objective: Objective) -> Opinion | None:
    """Most of the time to the first token, or of the GPU's time, is the computing of prompts."""
    share, ttft = max(view.values(lm.PREFILL_SHARE), default=0.0), view.values(lm.TTFT)
    if share < MAIN or (ttft and max(ttft) < objective.ttft_p95):
        return None
    evidence = (
        view.evidence("share of computing prompts", share, "ratio", threshold=MAIN, of=(lm.PREFILL_SHARE,)),
    )
    why = f"{percent(share)} of the time is the computing of prompts."
    do = "reuse what prompts share, shorter prompts, or more compute for prefill"
    return likely(Bound.COMPUTE, "prefill", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def beside_prefill(view: LogView, objective: Objective) -> Opinion | None:
    """No token comes for long while another prompt is computed (rule 12)."""
    stop = max(view.values(lm.STALL_BESIDE), default=0.0)
    limit = STALLED_TOKENS * objective.itl_p95
    if stop < limit:
        return None
    evidence = (view.evidence("time without a token beside prefill", stop, "seconds", threshold=limit,
                              of=(lm.STALL_BESIDE,)),)  # fmt: skip
    why = f"No token comes for {duration(stop)} while another prompt is computed."
    do = "a smaller budget of tokens a step for mixed traffic, or prefill on cards of its own"
    return likely(Bound.COMPUTE, "interference", why, Grade.MEASURED, evidence, do=do)


def own_work(view: LogView) -> Opinion | None:
    """The CPU's own work is most of the time to the first token, or of the time of a token."""
    own = view.of(lm.HOST_TIME)
    if not own or view.of(lm.GPU_TIME):
        return None
    most = max(own, key=lambda said: said.value)
    wholes = [
        value for q in (lm.TTFT, lm.ITL, lm.REQUEST_TIME) for value in view.values(q) if value >= most.value
    ]
    share = most.value / min(wholes) if wholes else 0.0
    if share < MAIN or most.value < LEAST:
        return None
    name = most.labels.get("as", "")
    evidence = (view.evidence("the CPU's own work, share of the time", share, "ratio", threshold=MAIN,
                              of=(lm.HOST_TIME, lm.TTFT, lm.ITL)),)  # fmt: skip
    why = f"The CPU's own work ({name}) takes {duration(most.value)} of {duration(min(wholes))}."
    do = "move that work off the path: more API processes, native tokenizers and hashing, caches for it"
    return likely(Bound.HOST, host_subclass(name), why, Grade.MEASURED, evidence, do=do)


def between_cards(view: LogView) -> Opinion | None:
    """A profile's collectives take as long as the kernels beside them, or go the long way around."""
    took, kernels = view.values(lm.NETWORK_TIME), view.values(lm.GPU_TIME)
    if not took:
        return None
    share = max(took) / (max(took) + max(kernels)) if kernels else 0.0
    if share < MAIN and not view.of(lm.FAST_PATH_OFF):
        return None
    evidence = (
        view.evidence("one collective takes", max(took), "seconds", of=(lm.NETWORK_TIME,)),
        view.evidence("collectives over collectives and kernels", share or None, "ratio", threshold=MAIN,
                      of=(lm.NETWORK_TIME, lm.GPU_TIME)),
        view.evidence("lines that rule a direct path out", len(view.of(lm.FAST_PATH_OFF)), threshold=0,
                      of=(lm.FAST_PATH_OFF,)),
    )  # fmt: skip
    beside = (
        f", kernels {duration(max(kernels))}" if kernels else ", and a direct path between cards is ruled out"
    )
    why = f"Traffic between the cards takes {duration(max(took))} at a time{beside}."
    do = "fewer cards in one tensor-parallel group, or cards with a direct link"
    return likely(Bound.NETWORK, "tensor_parallel", why, Grade.INFERRED, evidence, do=do)


def moved(view: LogView) -> Opinion | None:
    """Copies between the GPU and an outer tier take a large part of the step."""
    share = max(view.values(lm.MOVE_SHARE), default=0.0)
    if share < HOST_PART:
        return None
    evidence = (view.evidence("share of a step in copies to or from a tier", share, "ratio", threshold=HOST_PART,
                              of=(lm.MOVE_SHARE,)),)  # fmt: skip
    why = f"{percent(share)} of the time is copying between the GPU and memory outside it."
    do = "copy in larger pieces and beside the compute, or keep less outside the GPU"
    return likely(Bound.OFFLOAD, "no_overlap", why, Grade.INFERRED, evidence, do=do)


def tensor_cores(view: LogView) -> Opinion | None:
    """Tensor cores are busy, and memory is not."""
    busy, memory = max(view.values(lm.TENSOR_ACTIVE), default=0.0), view.values(lm.DRAM_ACTIVE)
    if busy < BUSY_ROOF or max(memory, default=0.0) >= NEAR:
        return None
    evidence = (
        view.evidence("tensor cores at work", busy, "ratio", threshold=BUSY_ROOF, of=(lm.TENSOR_ACTIVE,)),
        view.evidence("DRAM busy", max(memory, default=None), "ratio", threshold=NEAR, of=(lm.DRAM_ACTIVE,)),
    )
    why = f"Tensor cores are at work {percent(busy)} of the time: steps compute at their roof."
    do = "fewer tokens to compute (reuse, shorter prompts), a smaller format, or more cards"
    return likely(Bound.COMPUTE, None, why, Grade.MEASURED, evidence, do=do)


def blocks_gone(view: LogView) -> bool:
    """Say whether requests were preempted or the pool was seen full."""
    return bool(view.preemptions or view.of(m.SWAPPED)) or (
        view.usage is not None and view.usage.peak >= FULL
    )


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask of every part."""
    asked = (
        moved(view),
        between_cards(view),
        own_work(view),
        tensor_cores(view),
        beside_prefill(view, objective),
        prefill(view, objective),
        queue(view, objective),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
