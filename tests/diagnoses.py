"""Literal answers for the renderers' tests: what the pipeline says of typical services."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from kvdoctor.model import (
    Advice,
    Basis,
    Bound,
    Confidence,
    Cost,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Ledger,
    Metric,
    Part,
    State,
    Verdict,
)
from kvdoctor.service import (
    Chart,
    Headline,
    Memory,
    Objective,
    Quantile,
    RooflinePoint,
    Sums,
    TargetInfo,
    Window,
)

START = 1795980710.25
OBJECTIVE = Objective(ttft_p95=2.0, itl_p95=0.05, stated=False)
COST = Cost(cpu_seconds=0.214, bytes=1_482_310, longest_read_seconds=0.0121)
H100 = TargetInfo(
    engine="vllm",
    version="0.32.0",
    model="meta-llama/Llama-3.1-70B-Instruct",
    url="http://10.0.3.7:8000",
    ranks=("0",),
    gpus=("4 x NVIDIA H100 80GB HBM3",),
    memory=Memory(weights=35.3e9, pool=31.9e9, used=31.2e9, free=3.1e9),
    uptime_seconds=191_000.0,
)
SMALL = TargetInfo(
    "vllm", "0.32.0", "tiny-llama", url="http://127.0.0.1:8000", ranks=("0",), uptime_seconds=412.0
)
NO_HOST = Gap("host", "a URL tells nothing about the CPUs behind it", "run on the serving host with --pid")
NO_CEILING = Gap(
    "HBM read ceiling", "the card is unknown: a URL does not tell it", "--gpu NAME, or --bandwidth GB/s"
)
NO_MODEL = Gap("model shape", "no configuration was found", "--model CONFIG")

HOST_UNSEEN = Finding(Bound.HOST, Verdict.NO_DATA, gaps=(NO_HOST,))
DEVICE_UNSEEN = Finding(Bound.DEVICE, Verdict.NO_DATA, gaps=(NO_HOST,))
BANDWIDTH_UNSEEN = Finding(Bound.BANDWIDTH, Verdict.NO_DATA, gaps=(NO_CEILING, NO_MODEL))
NETWORK_QUIET = Finding(
    Bound.NETWORK,
    Verdict.RULED_OUT,
    argument="No KV connector moved a byte and nothing waited for remote KV.",
    evidence=(
        Evidence("KV bytes moved between instances", 0.0, "bytes", None, "vllm:nixl_bytes_transferred_sum"),
    ),
)
OFFLOAD_QUIET = Finding(
    Bound.OFFLOAD, Verdict.RULED_OUT, argument="No KV was loaded from CPU memory or disk in the window."
)
POOL_ROOMY = Finding(
    Bound.CAPACITY,
    Verdict.RULED_OUT,
    argument="The pool has room and nobody waits for blocks.",
    evidence=(
        Evidence("KV pool at its fullest", 0.31, "ratio", 0.95, "vllm:kv_cache_usage_perc"),
        Evidence("preemptions", 0.0, "events", 0.0, "vllm:num_preemptions_total"),
    ),
)
QUEUE_SHORT = Finding(
    Bound.QUEUEING,
    Verdict.RULED_OUT,
    argument="Requests hardly wait.",
    evidence=(Evidence("queue, of TTFT", 0.004, "ratio", 0.05, "vllm:num_requests_waiting / Little"),),
)


def window(requests: float, finished: float, **more: Any) -> Window:
    """Return a window of 15 s."""
    fields: dict[str, Any] = {
        "seconds": 15.004,
        "scrapes": 16,
        "generated_tokens": 91_204.0,
        "prompt_tokens": 402_118.0,
    }
    return Window(START, requests=requests, finished=finished, **(fields | more))


def quantiles(ttft: tuple[float, ...], itl: tuple[float, ...]) -> dict[str, dict[str, Quantile]]:
    """Return p50, p95 and p99 of both latencies from (low, high) pairs laid end to end."""
    names = ("p50", "p95", "p99")
    return {
        metric: {name: Quantile(flat[2 * i], flat[2 * i + 1]) for i, name in enumerate(names)}
        for metric, flat in (("ttft", ttft), ("itl", itl))
    }


def wave(title: str, unit: str, base: float, swing: float, *labels: str) -> Chart:
    """Return a chart of 16 readings for each label."""
    lines = tuple(
        (label, tuple((float(t), base * (k + 1) + swing * math.sin(t / 2 + k)) for t in range(16)))
        for k, label in enumerate(labels or (title,))
    )
    return Chart(title, unit, lines)


PREEMPTION = Finding(
    Bound.CAPACITY,
    Verdict.LIKELY,
    "preemption",
    "The pool is full, running sequences lose their blocks and compute them again while new requests wait.",
    Metric.ITL,
    share_seconds=9.84,
    recoverable_seconds=8.9,
    evidence=(
        Evidence("KV pool at its fullest", 0.9987, "ratio", 0.95, "vllm:kv_cache_usage_perc"),
        Evidence("preemptions", 54.0, "events", 0.0, "vllm:num_preemptions_total"),
        Evidence("stall per output token", 0.0113, "seconds", 0.0009, "waiting integral, first-queue times"),
        Evidence(
            "requests that wait for blocks", 5.4, "requests", 0.5, "vllm:num_requests_waiting_by_reason"
        ),
        Evidence("ITL p99 over ITL p50", 21.0, "", 3.0, "vllm:inter_token_latency_seconds"),
    ),
    advice=(
        Advice(
            "Store the KV cache in FP8 (--kv-cache-dtype fp8)",
            "Twice the tokens fit the pool: 97,300 becomes 194,600, and 12 sequences of 14,200 tokens need "
            "170,400. The stall of 11.3 ms a token goes, 787 tokens a request.",
            Basis.MODELLED,
            8.9,
        ),
        Advice(
            "Admit fewer sequences (--max-num-seqs 6)",
            "6 x 14,200 = 85,200 tokens fit the pool of 97,300. Preemption ends, requests queue instead: the "
            "stall of 11.3 ms a token is traded for a longer TTFT.",
            Basis.UPPER_BOUND,
            4.1,
        ),
        Advice(
            "Give the pool more of the card (--gpu-memory-utilization)",
            "3.1 GB of HBM are free.",
            Basis.MEASURED,
        ),
    ),
)
CAPACITY = Diagnosis(
    kvdoctor="0.1.0",
    targets=(H100,),
    window=window(214, 198),
    objective=OBJECTIVE,
    state=State.BOUND,
    primary=Bound.CAPACITY,
    subclass="preemption",
    primary_by_metric={"ttft": "capacity", "itl": "capacity"},
    subclass_by_metric={"ttft": "admission", "itl": "preemption"},
    paced_by="capacity",
    contributing=((Bound.BANDWIDTH, "kv_reads"),),
    confidence=Confidence.HIGH,
    confidence_reasons=(
        "91% of the ledger is measured",
        "214 requests in the window, 20 are needed",
        "the waiting integral and the ITL tail agree on the stall (11.3 and 10.6 ms a token)",
        "the pool's fill is far from its threshold",
    ),
    summary="The KV pool is full: 54 preemptions in 15 s cost a request 9.84 s of its 29.9 s, "
    "because blocks that are thrown away are computed again.",
    sentences={
        "ttft": "Of 1.31 s, 1.02 s are a wait for blocks that running sequences hold.",
        "itl": "Of 36.4 ms, 11.3 ms are stalls of preempted sequences; without them a token takes 25.1 ms.",
    },
    next_measurement="None is needed to act. To size the pool: the longest context in the request log.",
    quantiles=quantiles((0.75, 1.0, 2.5, 5.0, 5.0, 7.5), (0.02, 0.025, 0.05, 0.075, 0.5, math.inf)),
    ledgers={
        "ttft": Ledger(
            Metric.TTFT,
            1.31,
            214.0,
            (
                Part("frontend", 0.0121, Basis.RESIDUAL),
                Part("queue", 1.084, Basis.MEASURED),
                Part(
                    "wait for blocks", 1.02, Basis.MEASURED, "queue", "time integral of the waiting by reason"
                ),
                Part("admission limit", 0.064, Basis.MEASURED, "queue"),
                Part("prefill", 0.179, Basis.MEASURED),
                Part("avoidable", 0.031, Basis.UPPER_BOUND, "prefill"),
                Part("new", 0.148, Basis.RESIDUAL, "prefill"),
                Part("first_step", 0.0349, Basis.MODELLED),
            ),
        ),
        "itl": Ledger(
            Metric.ITL,
            0.0364,
            91_204.0,
            (
                Part("weights", 0.0121, Basis.MODELLED, note="35.3 GB of each card at 2.91 TB/s"),
                Part("kv_reads", 0.0074, Basis.MODELLED),
                Part("collectives", 0.0011, Basis.UPPER_BOUND),
                Part("prefill_in_step", 0.0016, Basis.MEASURED),
                Part("preemption_stall", 0.0113, Basis.MEASURED),
                Part("unexplained", 0.0029, Basis.RESIDUAL),
            ),
        ),
    },
    findings=(
        PREEMPTION,
        Finding(
            Bound.BANDWIDTH,
            Verdict.POSSIBLE,
            "kv_reads",
            "Between stalls a step comes near the ceiling at the upper end of what it may read.",
            Metric.ITL,
            share_seconds=5.8,
            recoverable_seconds=2.9,
            evidence=(
                Evidence("HBM read, low end", 1.92e12, "bytes/s", 2.62e12, "steps x weights + unique KV"),
                Evidence(
                    "HBM read, high end", 2.71e12, "bytes/s", 2.62e12, "steps x weights + KV of each sequence"
                ),
            ),
            advice=(
                Advice(
                    "Quantize the KV cache: it serves both causes",
                    "Half of 7.4 ms of KV reads a step is 3.7 ms; x 787 tokens.",
                    Basis.MODELLED,
                    2.9,
                ),
            ),
        ),
        OFFLOAD_QUIET,
        Finding(
            Bound.HIT_RATE,
            Verdict.RULED_OUT,
            argument="87% of prompt tokens come from the cache; the rest costs at most 31.0 ms.",
            evidence=(Evidence("prefix hit rate", 0.871, "ratio", None, "vllm:prefix_cache_hits_total"),),
        ),
        NETWORK_QUIET,
        QUEUE_SHORT,
        HOST_UNSEEN,
        DEVICE_UNSEEN,
    ),
    gaps=(NO_HOST,),
    cost=COST,
    header=(
        Headline("requests", "requests/s", 14.3, 11.9),
        Headline("output tokens", "tokens/s", 6079.0, 5212.0),
        Headline("TTFT mean", "seconds", 1.31, 0.412),
        Headline("ITL mean", "seconds", 0.0364, 0.0251),
        Headline("prefix hit rate", "ratio", 0.871, 0.884),
        Headline("KV pool in use", "ratio", 0.9987, None),
        Headline("preemptions", "events/s", 3.6, 0.021),
    ),
    charts=(
        wave("Requests by state", "requests", 8.0, 3.0, "running", "waiting for blocks", "waiting, other"),
        wave("KV pool in use", "ratio", 0.93, 0.06),
        wave("Preemptions", "events/s", 3.6, 2.0),
        wave("Tokens", "tokens/s", 6000.0, 900.0, "generated", "prompt, computed"),
        wave("Prefix hit rate", "ratio", 0.87, 0.03),
        wave("Mean ITL", "seconds", 0.036, 0.008),
    ),
    roofline=RooflinePoint(
        bandwidth=2.91e12,
        bandwidth_basis="0.87 x data sheet, 3.35 TB/s",
        achieved_low=1.92e12,
        achieved_high=2.71e12,
        step_seconds=0.0195,
        floor_seconds=0.0129,
        batch=12.0,
        context=14_200.0,
    ),
    sums=Sums(0.412, 8.2e9, 0.0, "Llama 3.1 70B, FP8 weights, BF16 KV, four cards"),
)

HEALTHY = dataclasses.replace(
    CAPACITY,
    targets=(SMALL,),
    window=window(41, 40, generated_tokens=2_624.0, prompt_tokens=21_114.0),
    state=State.HEALTHY,
    primary=None,
    subclass=None,
    primary_by_metric={"ttft": "healthy", "itl": "healthy"},
    subclass_by_metric={"ttft": None, "itl": None},
    paced_by="compute",
    contributing=(),
    confidence=Confidence.MEDIUM,
    confidence_reasons=(
        "88% of the ledger is measured",
        "41 requests in the window, 20 are needed",
        "bandwidth not judged: no ceiling is known",
    ),
    summary="Objectives are met, nothing waits, and 87% of prompt tokens come from the cache. "
    "Bandwidth not judged.",
    sentences={
        "ttft": "35.1 ms, of which 31.0 ms are the prefill of new tokens.",
        "itl": "4.12 ms, without a tail.",
    },
    next_measurement="If it still feels slow: a client's own TTFT, since this one starts at the front end.",
    quantiles=quantiles((0.02, 0.04, 0.04, 0.06, 0.04, 0.06), (0.0, 0.01, 0.0, 0.01, 0.0, 0.01)),
    ledgers={
        "ttft": Ledger(
            Metric.TTFT,
            0.0351,
            41.0,
            (
                Part("frontend", 0.0031, Basis.RESIDUAL),
                Part("queue", 0.0001, Basis.MEASURED),
                Part("prefill", 0.031, Basis.MEASURED),
                Part("first_step", 0.0009, Basis.MODELLED),
            ),
        ),
        "itl": Ledger(
            Metric.ITL,
            0.00412,
            2583.0,
            (Part("prefill_in_step", 0.0002, Basis.MEASURED), Part("unexplained", 0.00392, Basis.RESIDUAL)),
        ),
    },
    findings=(
        POOL_ROOMY,
        OFFLOAD_QUIET,
        NETWORK_QUIET,
        QUEUE_SHORT,
        BANDWIDTH_UNSEEN,
        HOST_UNSEEN,
        DEVICE_UNSEEN,
    ),
    gaps=(NO_CEILING, NO_MODEL, NO_HOST),
    header=(
        Headline("requests", "requests/s", 2.73, 2.41),
        Headline("TTFT mean", "seconds", 0.0351, 0.0362),
        Headline("ITL mean", "seconds", 0.00412, 0.0042),
    ),
    charts=(wave("Requests by state", "requests", 1.0, 0.2, "running", "waiting"),),
    roofline=None,
    sums=Sums(0.118, None, 0.0, ""),
)

QUEUEING = dataclasses.replace(
    HEALTHY,
    window=window(59, 56),
    state=State.BOUND,
    primary=Bound.QUEUEING,
    subclass="admission_limit",
    primary_by_metric={"ttft": "queueing", "itl": "healthy"},
    subclass_by_metric={"ttft": "admission_limit", "itl": None},
    paced_by="queueing",
    summary="Requests wait for one of 4 seats while the pool is 0.3% full: 1.24 s of 1.31 s TTFT.",
    sentences={"ttft": "1.24 s of 1.31 s are a wait for a seat.", "itl": "4.12 ms, within its objective."},
    next_measurement="A step's time at a larger batch: raise --max-num-seqs to 8 and diagnose again.",
    ledgers={
        "ttft": Ledger(
            Metric.TTFT,
            1.31,
            59.0,
            (
                Part("frontend", 0.004, Basis.RESIDUAL),
                Part("queue", 1.24, Basis.MEASURED),
                Part("admission limit", 1.24, Basis.MEASURED, "queue"),
                Part("prefill", 0.066, Basis.MEASURED),
            ),
        ),
        "itl": HEALTHY.ledgers["itl"],
    },
    findings=(
        Finding(
            Bound.QUEUEING,
            Verdict.LIKELY,
            "admission_limit",
            "Running sits at its limit of 4 while 99.7% of the pool is empty.",
            Metric.TTFT,
            1.24,
            1.24,
            (
                Evidence("running, mean", 4.0, "requests", 4.0, "vllm:num_requests_running"),
                Evidence("KV pool in use", 0.003, "ratio", 0.9, "vllm:kv_cache_usage_perc"),
            ),
            advice=(Advice("Raise --max-num-seqs", "20 more seats end the wait.", Basis.UPPER_BOUND, 1.24),),
        ),
        *HEALTHY.findings[:3],
        HOST_UNSEEN,
    ),
    quantiles=quantiles((1.0, 2.5, 1.0, 2.5, 1.0, 2.5), (0.0, 0.01, 0.0, 0.01, 0.0, 0.01)),
)

PREFILL = dataclasses.replace(
    HEALTHY,
    window=window(88, 84, prompt_tokens=113_933.0),
    state=State.BOUND,
    primary=Bound.COMPUTE,
    subclass="prefill",
    primary_by_metric={"ttft": "compute", "itl": "compute"},
    subclass_by_metric={"ttft": "prefill", "itl": "interference"},
    paced_by="compute",
    contributing=((Bound.HIT_RATE, None),),
    confidence=Confidence.MEDIUM,
    summary="Prefill is 92% of TTFT, and not one of 113,933 prompt tokens came from the cache.",
    sentences={
        "ttft": "188 ms of 204 ms are prefill, 0 to 188 ms of it avoidable.",
        "itl": "Prefill stretches steps.",
    },
    next_measurement="Whether prompts share a prefix: count distinct first blocks in the request log.",
    ledgers={
        "ttft": Ledger(
            Metric.TTFT,
            0.204,
            88.0,
            (
                Part("frontend", 0.006, Basis.RESIDUAL),
                Part("queue", 0.01, Basis.MEASURED),
                Part("prefill", 0.188, Basis.MEASURED),
                Part("avoidable", 0.188, Basis.UPPER_BOUND, "prefill"),
            ),
        ),
        "itl": HEALTHY.ledgers["itl"],
    },
    findings=(
        Finding(
            Bound.COMPUTE,
            Verdict.LIKELY,
            "prefill",
            "Prefill of new tokens is most of TTFT.",
            Metric.TTFT,
            0.188,
            None,
            (Evidence("prefill, of TTFT", 0.92, "ratio", 0.5, "vllm:request_prefill_time_seconds"),),
        ),
        Finding(
            Bound.HIT_RATE,
            Verdict.POSSIBLE,
            None,
            "A salted prefix and honestly new prompts look the same in the counters.",
            Metric.TTFT,
            0.188,
            0.188,
            (
                Evidence("prefix hit rate", 0.0, "ratio", None, "vllm:prefix_cache_hits_total"),
                Evidence(
                    "hit rate of the KV connector", None, "ratio", None, "vllm:external_prefix_cache_queries"
                ),
            ),
            advice=(Advice("Make prefixes token-exact", "0 to 188 ms of TTFT.", Basis.UPPER_BOUND, 0.188),),
        ),
        POOL_ROOMY,
    ),
)

NETWORK = dataclasses.replace(
    HEALTHY,
    window=window(1, 1, seconds=61.2, scrapes=44),
    targets=(
        dataclasses.replace(SMALL, role="decode"),
        dataclasses.replace(SMALL, role="prefill", url="http://127.0.0.1:8001"),
    ),
    state=State.BOUND,
    primary=Bound.NETWORK,
    subclass="handover",
    primary_by_metric={"ttft": "network", "itl": "insufficient_evidence"},
    subclass_by_metric={"ttft": "handover", "itl": None},
    paced_by="network",
    confidence=Confidence.LOW,
    confidence_reasons=("one request in the window, 20 are needed",),
    summary="One request waited 1.84 s for 4.2 MB of KV; at the link's rate the wire needs 0.67 s of it.",
    sentences={"ttft": "1.84 s of 1.9 s are a wait for remote KV.", "itl": "Too few tokens to say."},
    next_measurement="Twenty requests with the same hand-over.",
    notes=("The decode side's TTFT is not the user's.",),
    ledgers={
        "ttft": Ledger(
            Metric.TTFT,
            1.9,
            1.0,
            (
                Part("queue", 1.85, Basis.MEASURED),
                Part("kv_wait", 1.84, Basis.MEASURED, "queue"),
                Part("on the wire", 0.67, Basis.MODELLED, "kv_wait"),
                Part("the rest", 0.06, Basis.RESIDUAL),
                Part("overcounted", -0.01, Basis.RESIDUAL),
            ),
        )
    },
    findings=(
        Finding(
            Bound.NETWORK,
            Verdict.LIKELY,
            "handover",
            "The wait for remote KV is most of TTFT, the wire a third of the wait.",
            Metric.TTFT,
            1.84,
            1.17,
            (Evidence("wire time, of the wait", 0.36, "ratio", 0.5, "vllm:nixl_bytes_transferred_sum"),),
            advice=(
                Advice(
                    "Do not disaggregate at this load", "Prefill here takes 31.0 ms.", Basis.MODELLED, 1.8
                ),
            ),
        ),
    ),
)

IDLE = dataclasses.replace(
    HEALTHY,
    window=window(0, 0, generated_tokens=0.0, prompt_tokens=0.0),
    state=State.IDLE,
    primary_by_metric={"ttft": "idle", "itl": "idle"},
    paced_by=None,
    confidence=Confidence.HIGH,
    confidence_reasons=("no request, no token in 16 readings",),
    summary="Nothing ran and nothing waited in the window.",
    sentences={"ttft": "No first token.", "itl": "No token."},
    next_measurement="Diagnose while the service is under load.",
    quantiles={},
    ledgers={},
    findings=(BANDWIDTH_UNSEEN, HOST_UNSEEN),
    header=(Headline("requests", "requests/s", 0.0, 2.41), Headline("TTFT mean", "seconds", None, 0.0362)),
    charts=(),
    sums=None,
)

INSUFFICIENT = dataclasses.replace(
    IDLE,
    window=window(3, 0, restarts=1),
    state=State.INSUFFICIENT,
    primary_by_metric={"ttft": "insufficient_evidence", "itl": "insufficient_evidence"},
    confidence=Confidence.LOW,
    confidence_reasons=("3 requests in the window, 20 are needed",),
    summary="Three first tokens and a restart: too little to split.",
    sentences={},
    next_measurement="A window of 2 minutes: kvdoctor diagnose --seconds 120.",
)

LIFETIME = dataclasses.replace(
    HEALTHY,
    window=window(18_201, 18_190, seconds=191_000.0, scrapes=1, lifetime=True),
    state=State.INSUFFICIENT,
    primary_by_metric={"ttft": "insufficient_evidence", "itl": "insufficient_evidence"},
    paced_by=None,
    confidence=Confidence.LOW,
    confidence_reasons=("one reading only: sums since the start, not the present",),
    summary="One reading tells what happened since the start, not what happens now.",
    header=(Headline("TTFT mean", "seconds", None, 0.0362),),
    charts=(),
)

SAMPLES: dict[str, Diagnosis] = {
    "healthy": HEALTHY,
    "capacity": CAPACITY,
    "queueing": QUEUEING,
    "prefill": PREFILL,
    "network": NETWORK,
    "idle": IDLE,
    "insufficient": INSUFFICIENT,
    "lifetime": LIFETIME,
}
