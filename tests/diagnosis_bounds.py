"""Literal answers that name other bounds: queueing, prefill, a hand-over between instances."""

from __future__ import annotations

import dataclasses

from diagnosis_parts import HOST_UNSEEN, POOL_ROOMY, SMALL, quantiles, window
from diagnosis_states import HEALTHY

from kvdoctor.model import (
    Advice,
    Basis,
    Bound,
    Confidence,
    Evidence,
    Finding,
    Ledger,
    Metric,
    Part,
    State,
    Verdict,
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
