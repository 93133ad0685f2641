"""What reports support, in words of our own: a row just on either side of what decides, and rows that mislead."""

from __future__ import annotations

import pytest

from kvdoctor.diagnose import diagnose
from kvdoctor.readers.evidence import evidence_recording

NOTHING = "insufficient_evidence"
SIDES = [
    ("most of TTFT in the queue", "benchmark: share of TTFT spent in queue: 91%; benchmark: TTFT: 14 s",
     "benchmark: share of TTFT spent in queue: 31%; benchmark: TTFT: 14 s", "queueing"),
    ("a long queue time", "metric: mean queue time: 12 s; benchmark: TTFT: 13 s",
     "metric: mean queue time: 0.2 s; benchmark: TTFT: 13 s", "queueing"),
    ("as many run as may", "log: running: 8; log: waiting: 40; flag: max-num-seqs: 8",
     "log: running: 7; log: waiting: 40; flag: max-num-seqs: 8", "queueing"),
    ("by prefix is slower", "benchmark: TTFT, round_robin / cache_aware routing: 0.6 s / 1.6 s",
     "benchmark: TTFT, round_robin / cache_aware routing: 0.6 s / 0.7 s", "queueing"),
    ("uneven replicas", "log: waiting, replica A: 57; log: waiting, replica B: 0",
     "log: waiting, replica A: 57; log: waiting, replica B: 49", "queueing"),
    ("most of TTFT is prefill", "profile: prefill share of TTFT: 94%; benchmark: TTFT: 5 s",
     "profile: prefill share of TTFT: 24%; benchmark: TTFT: 5 s", "compute"),
    ("tokens stop beside prefill", "benchmark: decode froze during a prefill: 4 s",
     "benchmark: decode froze during a prefill: 0.1 s", "compute"),
    ("tensor cores at work", "nvml: tensor core active: 72%; nvml: DRAM active: 28%",
     "nvml: tensor core active: 22%; nvml: DRAM active: 28%", "compute"),
    ("a better kernel", "benchmark: TTFT, kernel A / kernel B: 9 s / 2 s",
     "benchmark: TTFT, kernel A / kernel B: 9 s / 8 s", "compute"),
    ("drafts that cost", "benchmark: decode tok/s, spec off / spec on: 62 / 48",
     "benchmark: decode tok/s, spec off / spec on: 62 / 58", "compute"),
    ("one long prompt", "workload: prompt length: 16000; benchmark: TTFT: 15 s",
     "workload: prompt length: 16000; benchmark: TTFT of a hit: 15 s", "compute"),
    ("tokenizing is most of TTFT", "profile: tokenization time: 310 ms; benchmark: TTFT: 355 ms",
     "profile: tokenization time: 31 ms; benchmark: TTFT: 355 ms", "host"),
    ("log probabilities that cost", "log: Throughput with logprobs=5: 210 tok/s; log: Throughput without logprobs: 880 "
     "tok/s", "log: Throughput with logprobs=5: 810 tok/s; log: Throughput without logprobs: 880 tok/s", "host"),
    ("a starved card", "nvml: GPU utilization: 30%; workload: concurrency: 64",
     "nvml: GPU utilization: 85%; workload: concurrency: 64", "host"),
    ("a starved group of cards", "nvml: GPU utilization: 30%; workload: concurrency: 64",
     "nvml: GPU utilization: 30%; workload: concurrency: 64; flag: tensor-parallel-size: 4", "host"),
    ("held before the engine", "workload: concurrency: 72; log: running: 3; log: waiting: 0; benchmark: TTFT: 30 s",
     "workload: concurrency: 72; log: running: 70; log: waiting: 0; benchmark: TTFT: 30 s", "host"),
    ("more processes help", "benchmark: request throughput, 1 API server / 4 API servers: 11 req/s / 31 req/s",
     "benchmark: request throughput, 1 API server / 4 API servers: 11 req/s / 12 req/s", "host"),
    ("a setting of the host", "flag: --cpu threads: 30 -> 18; benchmark: decode rate: 1 tok/s -> 4 tok/s",
     "flag: --cpu threads: 30 -> 18; benchmark: decode rate: 3.9 tok/s -> 4 tok/s", "host"),
    ("copies take the step", "profile: cudaMemcpyAsync for KV offload: 41% of step",
     "profile: cudaMemcpyAsync for KV offload: 11% of step", "offload"),
    ("a load slower than computing", "log: KV load from CPU: 2 s; benchmark: recompute of the prefix: 0.9 s",
     "log: KV load from CPU: 0.2 s; benchmark: recompute of the prefix: 0.9 s", "offload"),
    ("a tier as slow as prefill", "benchmark: store read rate: 15K tokens/s; benchmark: prefill rate: 14K tokens/s",
     "benchmark: store read rate: 95K tokens/s; benchmark: prefill rate: 14K tokens/s", "offload"),
    ("hits that save nothing", "benchmark: prompt tokens served from the store: 99%; benchmark: total time with "
     "store hits: 33 s; benchmark: total time, store off: 36 s",
     "benchmark: prompt tokens served from the store: 99%; benchmark: total time with store hits: 13 s; "
     "benchmark: total time, store off: 36 s", "offload"),
    ("a tier that only costs", "benchmark: total time, vLLM only / CPU offload: 300 s / 340 s; benchmark: "
     "request throughput, vLLM only / CPU offload: 14 req/s / 12.5 req/s",
     "benchmark: total time, vLLM only / CPU offload: 300 s / 340 s; benchmark: "
     "request throughput, vLLM only / CPU offload: 14 req/s / 15.5 req/s", "offload"),
    ("a tier with a CPU in its name", "benchmark: throughput, no offload / CPU offload: 1450 tok/s / 890 tok/s",
     "benchmark: throughput, no offload / CPU offload: 890 tok/s / 1450 tok/s", "offload"),
    ("a link used badly", "benchmark: KV transfer rate: 2 GB/s; hardware: NIC: 50 GB/s; benchmark: TTFT: 7 s",
     "benchmark: KV transfer rate: 45 GB/s; hardware: NIC: 50 GB/s; benchmark: TTFT: 7 s", "network"),
    ("collectives beside kernels", "profile: all-to-all per layer: 450 us; profile: expert GEMM per layer: 180 us",
     "profile: all-to-all per layer: 50 us; profile: expert GEMM per layer: 180 us", "network"),
    ("no direct path", "log: NCCL P2P: disabled; flag: tensor parallel size: 2; nvml: GPU utilization: 51%",
     "log: NCCL P2P: enabled; flag: tensor parallel size: 2; nvml: GPU utilization: 51%", "network"),
    ("KV on its way for most of TTFT", "metric: time in KV transfer: 70% of TTFT; benchmark: TTFT: 5 s",
     "metric: time in KV transfer: 10% of TTFT; benchmark: TTFT: 5 s", "network"),
    ("transfers that hold one another up", "metric: KV transfer time: 40 ms; metric: KV transfer time, later: 700 ms",
     "metric: KV transfer time: 240 ms; metric: KV transfer time, later: 600 ms", "network"),
    ("two machines", "benchmark: TTFT, one card: 0.2 s; benchmark: TTFT, prefill and decode on two machines: 3 s",
     "benchmark: TTFT, one card: 3 s; benchmark: TTFT, prefill and decode on two machines: 0.2 s", "network"),
    ("fewer bits", "benchmark: decode rate, FP16 / INT4: 31 tok/s / 96 tok/s",
     "benchmark: decode rate, FP16 / INT4: 31 tok/s / 36 tok/s", "bandwidth"),
    ("fewer bits of many streams", "benchmark: decode rate, FP16 / INT4: 31 tok/s / 96 tok/s",
     "benchmark: decode rate, FP16 / INT4: 31 tok/s / 96 tok/s; workload: concurrency: 64", "bandwidth"),
    ("threads that do not help", "benchmark: token time, 8 threads: 21 ms; benchmark: token time, 16 threads: 20 ms; "
     "benchmark: token time, 32 threads: 20 ms",
     "benchmark: token time, 8 threads: 61 ms; benchmark: token time, 16 threads: 35 ms; "
     "benchmark: token time, 32 threads: 20 ms", "bandwidth"),
    ("prompts that do not fit", "log: KV pool: 20000 tokens; workload: prompt length: 8000; workload: clients: 12",
     "log: KV pool: 200000 tokens; workload: prompt length: 8000; workload: clients: 12", "capacity"),
    ("no free block", "log: KV blocks free: 0; log: waiting: 31; log: running: 6",
     "log: KV blocks free: 900; log: waiting: 31; log: running: 6", "capacity"),
    ("a full pool and a queue, and no word of what runs", "log: KV cache usage: 99%; log: waiting: 9",
     "log: KV cache usage: 79%; log: waiting: 9", "capacity"),
    ("memory for KV", "benchmark: throughput, gpu-memory-utilization 0.6 / 0.92: 410 tok/s / 1150 tok/s",
     "benchmark: throughput, gpu-memory-utilization 0.6 / 0.92: 1100 tok/s / 1150 tok/s", "capacity"),
    ("fewer hits than could be", "workload: expected hit rate: 80%; metric: measured hit rate: 3%",
     "workload: expected hit rate: 80%; metric: measured hit rate: 71%", "hit_rate"),
    ("spread is slower", "benchmark: TTFT, round robin / prefix-aware routing: 1.6 s / 0.6 s",
     "benchmark: TTFT, round robin / prefix-aware routing: 0.7 s / 0.6 s", "hit_rate"),
    ("hits that a release lost", "log: hit rate, release 1.2 / release 1.3: 91% / 33%",
     "log: hit rate, release 1.2 / release 1.3: 91% / 83%", "hit_rate"),
    ("nothing cached of a repeat", "benchmark: cached_tokens, second identical request: 0",
     "benchmark: cached_tokens, second identical request: 7936", "hit_rate"),
    ("hits at 0, and a repeat that is quicker", "metric: prefix_cache_hits: 0; benchmark: "
     "TTFT first / repeated request: 5 s / 4.9 s",
     "metric: prefix_cache_hits: 0; benchmark: TTFT first / repeated request: 5 s / 0.8 s", "hit_rate"),
    ("caching off and a shared prefix", "flag: --no-enable-prefix-caching: set; workload: shared prefix: 6000 tokens; "
     "benchmark: TTFT: 3 s",
     "flag: --enable-prefix-caching: set; workload: shared prefix: 6000 tokens; benchmark: TTFT: 3 s", "hit_rate"),
    ("caching off and repeats", "config: cache_prompt: false; workload: identical prompt resent: yes; log: prompt "
     "eval time: 9 s", "workload: identical prompt resent: yes; log: prompt eval time: 0.9 s", "hit_rate"),
]  # fmt: skip


def named(report: str) -> str:
    """Answer for rows that are written `kind: name: value`."""
    rows = [
        dict(zip(("kind", "name", "value"), row.split(": ", 2), strict=True)) for row in report.split("; ")
    ]
    found = diagnose(evidence_recording(rows, "r"))
    assert found.confidence.value != "high"
    return found.primary_name


@pytest.mark.parametrize(("told", "other", "bound"), [s[1:] for s in SIDES], ids=[s[0] for s in SIDES])
def test_a_report_is_answered_on_one_side_and_not_on_the_other(told, other, bound):
    assert named(told) == bound
    assert named(other) != bound


@pytest.mark.parametrize(
    "told",
    [
        "process: CPU of the API server: 100%",
        "nvml: GPU memory used: 95%; nvml: memory utilization: 88%",
        "metric: prefix cache hit rate: 0%; workload: prompts: all distinct",
        "flag: GPU_MEM_UTIL: 0.3; workload: concurrency: 64",
        "hardware: network: 100 Gbps; metric: network throughput: 1.1 GB/s; benchmark: TTFT: 2.3 s",
        "workload: load: each user one request every 5 seconds",
        "metric: TTFT histogram: 54 requests >20 s, 38 >40 s",
        "log: model load time: 120 s; log: graph capture time: 25 s",
        "benchmark: TTFT, release 0.10: 0.4 s; benchmark: TTFT, release 0.11: 3 s",
        "nvml: GPU utilization: 15%; workload: request rate: 0.2 req/s; benchmark: TTFT: 0.3 s",
        "benchmark: throughput, prefix caching off / on: 900 tok/s / 905 tok/s",
        "metric: prefix_cache_queries_total: > 0",
    ],
)
def test_a_row_that_misleads_names_nothing(told):
    assert named(told) == NOTHING


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (
            "benchmark: TTFT p95: 210 ms; benchmark: ITL p95: 14 ms; log: waiting: 0; log: KV cache usage: 35%",
            "healthy",
        ),
        (
            "benchmark: TTFT p95: 5 s; benchmark: ITL p95: 14 ms; log: waiting: 0; log: KV cache usage: 35%",
            NOTHING,
        ),
        ("log: hit tokens / total tokens: 900 / 900; log: retrieve 900 tokens: 33 ms", "healthy"),
        ("log: hit tokens / total tokens: 900 / 900; log: retrieve 900 tokens: 330 ms", NOTHING),
        ("metric: running / waiting: 0 / 0; metric: new_token: 153; metric: gen_throughput: 0", "idle"),
        ("metric: running / waiting: 0 / 0; metric: generation throughput: 14 tok/s", "healthy"),
        ("nvml: GPU utilization: 0%; log: running: 3", NOTHING),
    ],
)
def test_a_state_is_named_by_what_was_told(told, state):
    assert named(told) == state
