"""Literal answers that name no bound: healthy, idle, too little seen, one reading only."""

from __future__ import annotations

import dataclasses

from diagnosis_capacity import CAPACITY
from diagnosis_parts import (
    BANDWIDTH_UNSEEN,
    DEVICE_UNSEEN,
    HOST_UNSEEN,
    NETWORK_QUIET,
    NO_CEILING,
    NO_HOST,
    NO_MODEL,
    OFFLOAD_QUIET,
    POOL_ROOMY,
    QUEUE_SHORT,
    SMALL,
    quantiles,
    wave,
    window,
)

from kvdoctor.model import Basis, Confidence, Ledger, Metric, Part, State
from kvdoctor.service import Headline, Sums

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
