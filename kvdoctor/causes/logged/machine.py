"""Host, kernels and memory on the word of a report: what CPU, GPU and memory were seen doing."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.opinion import MAIN, Grade, Opinion, likely, possible, ruled_out
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Evidence
from kvdoctor.service import Objective
from kvdoctor.units import duration, percent, rate_bytes

IDLE_GPU = 0.8
"""GPU time with any kernel, below which a busy service leaves it waiting a fifth of the time: device occupancy
counts a single kernel as busy, so the true share is lower still."""
PINNED = 0.9
"""Share of a core from which one process is held by it."""
HOST_PART = 0.25
"""Share of a step in the CPU's own work from which it is the host's (rule 11)."""
NEAR, BELOW = 0.6, 0.5
"""Share of the reachable rate from which reads set the pace (bandwidth), and under which a kernel does."""
STARVED = 3.0
"""Decode rate beside prefill, as a part of the rate without, from which prefill starves it."""
_TOKENIZER = re.compile(r"tokeniz|image|video|multimodal|frame|preprocess")
_HANDOVER = re.compile(r"transfer|hand ?(over|off)|nixl")
_PART = re.compile(r"\b(prefill|decode) (node|worker|instance|side|gpu|server)|\bcards? \d")
_GAPS = (
    "take stacks of the API and engine processes (py-spy), then move that work off the path: more API processes, "
    "native tokenizers and hashing, graphs"
)


def _loaded(view: LogView) -> bool:
    busy = view.mean(lm.CONCURRENCY) or (view.running.peak if view.running else 0.0)
    return view.flowing or busy > 0


def host(view: LogView) -> Opinion | None:
    """The GPU waits while one core is taken: CPU alone proves nothing, the GPU's idle time does (rule 11)."""
    gpu, cpu, part = view.mean(lm.GPU_BUSY), view.values(lm.CPU_BUSY), view.values(lm.HOST_SHARE)
    timed = _timed(view)
    if timed is not None:
        return timed
    evidence = (
        view.evidence("GPU time with any kernel", gpu, "ratio", threshold=IDLE_GPU, of=(lm.GPU_BUSY,)),
        view.evidence("busiest process, of one core", max(cpu, default=None), "ratio", threshold=PINNED,
                      of=(lm.CPU_BUSY,)),
        view.evidence("share of a step in the CPU's own work", max(part, default=None), "ratio",
                      threshold=HOST_PART, of=(lm.HOST_SHARE,)),
    )  # fmt: skip
    profiled = [s for s in view.of(lm.HOST_SHARE) if s.labels.get("kind") in lm.PROFILES]
    if profiled and max(s.value for s in profiled) >= HOST_PART:
        most = max(profiled, key=lambda s: s.value)
        name = most.labels.get("as", "")
        why = f"{percent(most.value)} of the profile is the CPU's own work: {name}."
        return likely(Bound.HOST, host_subclass(name), why, Grade.MEASURED, evidence, do=_GAPS)
    if gpu is None or not cpu:
        return starved(view, gpu)
    if gpu > IDLE_GPU or not _loaded(view):
        return ruled_out(Bound.HOST, "The GPU is not kept waiting, or nothing is asked of it.", evidence)
    if max(cpu) >= PINNED:
        why = f"The GPU runs {percent(gpu)} of the time under load while one process takes a whole core."
        return likely(Bound.HOST, "scheduler", why, Grade.MEASURED, evidence, do=_GAPS)
    return possible(Bound.HOST, None, f"The GPU runs {percent(gpu)} of the time under load.", evidence)


_BETWEEN = (lm.NETWORK_SHARE, lm.NETWORK_TIME, lm.TRANSFER_TIME, lm.TRANSFER_RATE, lm.FAST_PATH_OFF, lm.TCP)
_TIER = (lm.LOAD_TIME, lm.LOAD_RATE, lm.LOADED, lm.STORE_TIME, lm.MOVE_SHARE, lm.EXTERNAL_HIT_RATE)
UNUSED = 0.2
"""GPU time with any kernel under which, with no clients told, nothing may be asked of it."""
SEVERAL = 8
"""Requests at once from which a GPU should hardly ever run nothing."""


def starved(view: LogView, gpu: float | None) -> Opinion | None:
    """One card runs nothing for much of the time under load, and nothing but the host is told to keep it waiting."""
    idle = max([*view.values(lm.GPU_IDLE), *([1 - gpu] if gpu is not None else [])], default=0.0)
    profiled = any(
        s.labels.get("kind") in lm.PROFILES for q in (lm.GPU_IDLE, lm.GPU_BUSY) for s in view.of(q)
    )
    if (
        idle < HOST_PART
        or any(view.of(q) for q in (*_BETWEEN, *_TIER))
        or max(view.values(lm.CARDS), default=1) > 1
    ):
        return None
    if any(_PART.search(s.labels.get("as", "").lower()) for s in view.of(lm.GPU_BUSY)):
        return None
    running = view.running.peak if view.running else 0.0
    resting = bool(view.of(lm.DRAM_ACTIVE)) and max(view.values(lm.DRAM_ACTIVE)) < BELOW and 1 - idle > UNUSED
    if not (profiled or resting) and max(running, view.mean(lm.CONCURRENCY) or 0.0) < SEVERAL:
        return None
    evidence = (view.evidence("time in which the GPU runs nothing", idle, "ratio", threshold=HOST_PART,
                              of=(lm.GPU_IDLE, lm.GPU_BUSY)),)  # fmt: skip
    why = f"The GPU runs nothing {percent(idle)} of the time under load, and nothing but the CPU is told to hold it."
    return likely(Bound.HOST, None, why, Grade.INFERRED, evidence, do=_GAPS)


def _timed(view: LogView) -> Opinion | None:
    """A profile's own times: the CPU's work against the kernels of the same step."""
    own, kernels = view.of(lm.HOST_TIME), view.values(lm.GPU_TIME)
    if not own or not kernels:
        return None
    most = max(own, key=lambda s: s.value)
    share = most.value / (most.value + max(kernels))
    profiled = most.labels.get("kind") in lm.PROFILES
    if share < (HOST_PART if profiled else MAIN):
        return None
    name = most.labels.get("as", "")
    evidence = (view.evidence("the CPU's own work, share of a step", share, "ratio", threshold=HOST_PART,
                              of=(lm.HOST_TIME, lm.GPU_TIME)),)  # fmt: skip
    why = f"The CPU's own work ({name}) takes {duration(most.value)} beside {duration(max(kernels))} of kernels."
    return likely(Bound.HOST, host_subclass(name), why, Grade.MEASURED, evidence, do=_GAPS)


def collectives(view: LogView) -> Opinion | None:
    """A profile that puts a large part of the step into traffic between the cards."""
    share = max(view.values(lm.NETWORK_SHARE), default=0.0)
    if share < HOST_PART:
        return None
    evidence = (view.evidence("share of a step in collectives", share, "ratio", threshold=HOST_PART,
                              of=(lm.NETWORK_SHARE,)),)  # fmt: skip
    most = max(view.of(lm.NETWORK_SHARE), key=lambda s: s.value)
    if _HANDOVER.search(most.labels.get("as", "").lower()):
        why = f"{percent(share)} of the time is handing KV over between instances."
        do = "a direct path between them (RDMA, NVLink), larger pieces, or prefill and decode in one place"
        return likely(Bound.NETWORK, "handover", why, Grade.MEASURED, evidence, do=do)
    why = f"{percent(share)} of the profile is traffic between the cards."
    do = "fewer cards in one tensor-parallel group, or cards with a direct link"
    return likely(Bound.NETWORK, "tensor_parallel", why, Grade.MEASURED, evidence, do=do)


def host_subclass(name: str) -> str:
    """Return what kind of the CPU's work a name speaks of."""
    return "tokenizer" if _TOKENIZER.search(name.lower()) else "scheduler"


def memory(view: LogView) -> Opinion | None:
    """A measured read rate, or weights and a rate of one stream, held against what the memory can do."""
    active = view.values(lm.DRAM_ACTIVE)
    if active:
        return _active(view, max(active))
    reached, top, weights = view.values(lm.REACHED), view.values(lm.REACHABLE), view.last(lm.WEIGHTS)
    if not top:
        return None
    ceiling = max(top) if reached else min(top)
    if reached and ceiling:
        return _reached(view, max(reached), ceiling)
    rates = view.of(lm.DECODE_RATE) or view.of(lm.GENERATION_RATE)
    several = (view.running is not None and view.running.peak > 1) or (view.mean(lm.CONCURRENCY) or 1) > 1
    if not weights or not rates or several:
        return None
    share = max(s.value for s in rates) * weights / ceiling
    evidence = (
        view.evidence("weights x rate over the memory's rate", share, "ratio", threshold=NEAR,
                      of=(lm.WEIGHTS, lm.DECODE_RATE, lm.REACHABLE)),
    )  # fmt: skip
    if share < NEAR:
        return ruled_out(Bound.BANDWIDTH, "One stream reads far less than the memory can give.", evidence)
    why = f"Reading the weights once a token at {rate_bytes(ceiling)} allows {ceiling / weights:.3g} tokens a second."
    do = "fewer bytes: weights in 16, 8 or 4 bits; faster memory; or more requests at once"
    return likely(Bound.BANDWIDTH, "weights", why, Grade.INFERRED, evidence, do=do)


def _active(view: LogView, active: float) -> Opinion:
    evidence = (view.evidence("DRAM busy, or bandwidth utilisation", active, "ratio", threshold=NEAR,
                              of=(lm.DRAM_ACTIVE,)),)  # fmt: skip
    if active < NEAR:
        return ruled_out(Bound.BANDWIDTH, "The memory is far from its rate.", evidence)
    why = f"The memory is busy {percent(active)} of the time: reads set the pace."
    do = "fewer bytes: quantized weights or KV, fewer KV heads, more cards"
    return likely(Bound.BANDWIDTH, None, why, Grade.MEASURED, evidence, do=do)


def _reached(view: LogView, reached: float, ceiling: float) -> Opinion | None:
    share = reached / ceiling
    evidence: tuple[Evidence, ...] = (
        view.evidence("read rate over what the memory can do", share, "ratio", threshold=NEAR,
                      of=(lm.REACHED, lm.REACHABLE)),
    )  # fmt: skip
    if share >= NEAR:
        why = f"Decode reads {rate_bytes(reached)} of {rate_bytes(ceiling)}: the memory sets the pace."
        do = "fewer bytes: quantized weights or KV, fewer KV heads, more cards"
        return likely(Bound.BANDWIDTH, None, why, Grade.MEASURED, evidence, do=do)
    profiled = any(s.labels.get("kind") in lm.PROFILES for s in view.of(lm.REACHED))
    if share < BELOW and (profiled or _kernels_only(view)):
        why = f"The kernel reads {rate_bytes(reached)} where {rate_bytes(ceiling)} can be had: it sets the pace itself."
        do = "another attention kernel or backend (split long sequences over more of the card)"
        return likely(Bound.COMPUTE, None, why, Grade.MEASURED, evidence, do=do)
    return None


def _kernels_only(view: LogView) -> bool:
    """Say whether a profile puts a step into its kernels, and hardly any of it into the CPU's own work."""
    own, kernels = view.values(lm.HOST_TIME), view.values(lm.GPU_TIME)
    if max(view.values(lm.KERNEL_SHARE), default=0.0) >= MAIN:
        return True
    return bool(own and kernels) and max(own) < HOST_PART * (max(own) + max(kernels))


def interference(view: LogView, objective: Objective) -> Opinion | None:
    """One chunk of prefill takes far longer than a token may, and decode slows down beside it (rule 12)."""
    chunk, rate = view.last(lm.STEP_TOKENS), view.mean(lm.PREFILL_RATE)
    beside = [
        s.value for s in view.of(lm.DECODE_RATE) if re.search(r"prefill", s.labels.get("as", "").lower())
    ]
    alone = [s.value for s in view.of(lm.DECODE_RATE) if s.value not in beside]
    starved = bool(beside and alone and min(beside) > 0 and max(alone) / min(beside) >= STARVED)
    step = chunk / rate if chunk and rate else None
    if not starved and (step is None or step < 4 * objective.itl_p95 or not beside):
        return None
    evidence = (
        view.evidence("one chunk of prefill takes", step, "seconds", threshold=objective.itl_p95,
                      of=(lm.STEP_TOKENS, lm.PREFILL_RATE)),
        view.evidence("decode rate beside prefill", min(beside, default=None), "tokens/s", of=(lm.DECODE_RATE,)),
    )  # fmt: skip
    why = "Decode starves beside prefill" + (f": one chunk takes {duration(step)}." if step else ".")
    do = "a smaller budget of tokens a step for mixed traffic, or prefill on cards of its own"
    return likely(Bound.COMPUTE, "interference", why, Grade.MEASURED, evidence, do=do)


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask what was seen of the machine."""
    asked = (host(view), collectives(view), memory(view), interference(view, objective))
    return tuple(opinion for opinion in asked if opinion is not None)
