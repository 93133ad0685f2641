"""What a report names as the slowest part, or as the one thing that slows down: its nature names the class."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import CHANGED, WORSE, words
from kvdoctor.causes.logged.features import FEATURES, feature_of
from kvdoctor.causes.logged.machine import host_subclass
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound
from kvdoctor.service import Objective
from kvdoctor.units import duration

HALF = 0.5
"""Share of the ITL objective that one function of the CPU may take each time before its readers notice."""
_KINDS: tuple[tuple[Bound, str | None, str], ...] = (
    (Bound.NETWORK, "tensor_parallel", r"all ?reduce|nccl|all ?(to|2) ?all|all ?gather|reduce ?scatter|collective|"
     r"\bcomm(s|unication)?\b|deep ?ep|nvshmem|\bucx|\brdma|nixl|kv ?transfer|(send|recv) ?kv|kv ?(send|recv)|"
     r"\b(nic|tcp|network|interconnect|nvlink|ethernet|infiniband|cross node|inter node)\b"),
    (Bound.OFFLOAD, "no_overlap", r"mem ?cpy|\b(h2d|d2h|htod|dtoh)\b|swap ?(in|out|blocks)|off ?load|on ?load\w* kv|"
     r"load ?(kv|back)|lmcache|hicache|kvbm|(disk|ssd|nvme|file) ?(read|write|io)|retrieve ?(kv|layer)"),
    (Bound.HOST, None, r"bit ?mask|grammar|guided|structured|fsm|xgrammar|outlines|matcher|tokeni[sz]|token producer|"
     r"vocab|chat template|schedul|\bpython\b|\bgil\b|pickle|zmq|\bipc\b|json|serializ|hash|"
     r"block ?(manager|pool|table)|cache ?manager|allocat|radix|\btree\b|evict|prepare ?inputs?|input ?(prep\w*|batch)|"
     r"update ?states?|logits? ?process|logprob|penalt|post ?process|pre ?process|image (load|decod|process)|"
     r"\bcpu\b|kernel launch|launch overhead|event loop|asyncio|\block\b|mutex|numpy|to ?list|\bitem\(|regex|msgpack"),
    (Bound.BANDWIDTH, None, r"\b(memory|hbm|d?ram) (bandwidth|bound)|reading (the )?weights|weight reads?\b"),
    (Bound.COMPUTE, None, r"\bprefill|\bflops\b|compute bound|attn|attention|gemm|matmul|\bmm\b|de ?quant|"
     r"kernel|flash|\bmla\b|paged|moe|expert|decode ?stage ?\d|triton|cutlass|marlin|"
     r"conv\d?d?\b|rms ?norm|ro(tary|pe)\b|softmax|split ?k|\bssm|mamba"),
)  # fmt: skip
"""The nature of a function by its name; the first that fits has the word."""
_SPLIT = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMING = re.compile(
    r"\b(bottle ?necks?|hot ?spots?|hottest|slowest|dominant|top|most|dominat\w*|spent|samples|goes|thread|process|"
    r"spends|stacks?|frames?|self time|limiting factor|culprit)\b"
)
_DO = {
    Bound.BANDWIDTH: "fewer bytes: quantized weights or KV, fewer KV heads, more cards",
    Bound.NETWORK: "fewer cards in one group, a direct link between them, or less to move",
    Bound.OFFLOAD: "copy in larger pieces and beside the compute, or keep less outside the GPU",
    Bound.HOST: "move that work off the path: natively, cached, in other processes, or beside the GPU's work",
    Bound.COMPUTE: "another kernel or backend for that step, or another format",
}


def nature(text: str) -> tuple[Bound, str | None] | None:
    """Name the class that a function's name speaks of; None for several or none."""
    plain = _SPLIT.sub(" ", text).lower()
    plain = re.sub(r"[-_.:/]+", " ", plain)
    found = [(bound, subclass) for bound, subclass, pattern in _KINDS if re.search(pattern, plain)]
    return found[0] if found else None


_BESIDE = (Bound.HOST, Bound.NETWORK, Bound.OFFLOAD)
"""What a step can do without; some kernel always takes most of it."""
_HOLDS = re.compile(r"\b(bottle ?neck\w*|limiting factor|culprit)\b")


def slowest(view: LogView) -> Opinion | None:
    """A report names what takes most of the time, and its name tells what it is."""
    told = view.of(lm.SLOWEST)
    found = [(known, s) for s in told if (known := nature(_function(s.labels.get("as", ""))))]
    found = [(known, s) for known, s in found if known[0] in _BESIDE or _HOLDS.search(words(s))]
    if not found or len({known[0] for known, _ in found}) > 1:
        return None
    (bound, subclass), said = found[0]
    subclass = host_subclass(said.labels.get("as", "")) if bound is Bound.HOST else subclass
    profiled = said.labels.get("kind") in lm.PROFILES
    evidence = (view.evidence("what a report names as the slowest", 1.0, of=(lm.SLOWEST,)),)
    why = f"The report names what takes most of the time: {said.labels.get('as', '')}."
    grade = Grade.MEASURED if profiled else Grade.INFERRED
    return likely(bound, subclass, why, grade, evidence, do=_DO[bound])


def _function(text: str) -> str:
    """What is named: behind the colon, or before the words that name it."""
    name, _, value = text.partition(": ")
    return value if _NAMING.search(name.lower()) and re.search(r"[A-Za-z]{3}", value) else text


def each_time(view: LogView, objective: Objective) -> Opinion | None:
    """A profile times a function of the CPU, and it takes too long each time whatever the whole is."""
    own = [s for s in view.of(lm.HOST_TIME) if s.labels.get("kind") in lm.PROFILES]
    if not own or view.of(lm.GPU_TIME) or view.of(lm.PREFILL_TIME):
        return None
    most = max(own, key=lambda said: said.value)
    limit, name = HALF * objective.itl_p95, most.labels.get("as", "")
    others = [*view.values(lm.LOAD_TIME), *view.values(lm.TRANSFER_TIME), *view.values(lm.NETWORK_TIME)]
    if most.value < limit or max(others, default=0.0) >= most.value or "idle" in name.lower():
        return None
    if min(view.values(lm.TTFT) or [0.0]) > most.value / HALF:
        return None
    evidence = (view.evidence("the CPU's own work, each time", most.value, "seconds", threshold=limit,
                              of=(lm.HOST_TIME,)),)  # fmt: skip
    why = f"The CPU's own work ({name}) takes {duration(most.value)} each time."
    return likely(Bound.HOST, host_subclass(name), why, Grade.INFERRED, evidence, do=_DO[Bound.HOST])


_KV_FORMAT = re.compile(
    r"\b(kv (cache )?(d ?type|quant\w*|format|bits?)|cache type|ctk|ctv|turbo ?quant\w*|kivi|k8v4|k4v4|"
    r"fp8 (e4m3|e5m2|kv)|int[48] kv|kv (fp8|int[48])|nvfp4 kv|q[48]( \d)? kv)\b"
)


_GROUP = re.compile(
    r"\b(?:tp|tensor parallel(?: size)?|pp) ?=? ?(\d{1,3})\b|\b(\d{1,3}) ?x? ?(?:gpus?|cards?|nodes?)\b"
)


def _more_cards(text: str) -> bool:
    """Say whether more cards are held against fewer."""
    told = [int(a or b) for a, b in _GROUP.findall(text)]
    return len(told) == 2 and told[0] > told[1]


_AGAINST = re.compile(r"\b(?:against|versus|vs|over|compared (?:to|with)|relative to|than|instead of)\b")
_WITHOUT = re.compile(r"\b(without|no|off|disabled?|not)\b")
_DEVICE = re.compile(r"\b(on|the) cpus?\b|\bcpu (only|backend|inference)\b")
"""Another device, and no work of the host."""


def _costly(text: str) -> tuple[Bound, str | None] | None:
    """Name what the slower side has; None where it is the one without it, or where it is on another device."""
    slower = _AGAINST.split(text, maxsplit=1)[0]
    known = feature_of(slower) or feature_of(text)
    costs = (
        any(cost and bound is known[0] and re.search(p, text) for p, bound, _, cost in FEATURES)
        if known
        else False
    )
    if (
        known is None
        or _DEVICE.search(text)
        or (costs and (_WITHOUT.search(slower) or feature_of(slower) is None))
    ):
        return None
    return known


def times_slower(view: LogView) -> Opinion | None:
    """One thing makes a figure many times worse, and its nature names the class."""
    told = sorted(view.of(lm.TIMES_SLOWER), key=lambda s: -s.value)
    for said in told:
        text = words(said)
        if _KV_FORMAT.search(text.replace("_", " ")) and said.value >= WORSE:
            known: tuple[Bound, str | None] | None = (Bound.COMPUTE, None)
        elif _more_cards(text):
            known = (Bound.NETWORK, "tensor_parallel")
        else:
            known = _costly(text)
        if known is None or said.value < (
            WORSE if known[0] in (Bound.OFFLOAD, Bound.COMPUTE, Bound.NETWORK) else CHANGED
        ):
            continue
        evidence = (view.evidence("with it over without it", said.value, "x", threshold=WORSE,
                                  of=(lm.TIMES_SLOWER,)),)  # fmt: skip
        why = f"One thing makes it {said.value:.3g} times slower: {said.labels.get('as', '')}."
        return likely(
            *known, why, Grade.INFERRED, evidence, do="change that one thing back, or where it helps"
        )
    return None


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask what is named."""
    asked = (slowest(view), each_time(view, objective), times_slower(view))
    return tuple(opinion for opinion in asked if opinion is not None)
