"""The literal answer of a service whose KV pool is full: the longest of all, with every figure."""

from __future__ import annotations

import math

from diagnosis_parts import (
    COST,
    DEVICE_UNSEEN,
    H100,
    HOST_UNSEEN,
    NETWORK_QUIET,
    NO_HOST,
    OBJECTIVE,
    OFFLOAD_QUIET,
    QUEUE_SHORT,
    quantiles,
    wave,
    window,
)

from kvdoctor.model import (
    Advice,
    Basis,
    Bound,
    Confidence,
    Diagnosis,
    Evidence,
    Finding,
    Ledger,
    Metric,
    Part,
    State,
    Verdict,
)
from kvdoctor.service import Headline, RooflinePoint, Sums

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
