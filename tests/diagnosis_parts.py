"""Pieces of literal answers for the renderers' tests: findings without a say, windows, charts."""

from __future__ import annotations

import math
from typing import Any

from kvdoctor.model import Bound, Cost, Evidence, Finding, Gap, Verdict
from kvdoctor.service import Chart, Memory, Objective, Quantile, TargetInfo, Window

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
