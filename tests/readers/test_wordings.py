"""More wordings of our own for reports: comparisons, lines of engines, sides that must not be mixed up."""

from __future__ import annotations

import pytest

from kvdoctor.diagnose import diagnose
from kvdoctor.readers.evidence import evidence_recording

NAMED = [
    ("benchmark: throughput without CUDA graphs vs with: 2x slower", "host"),
    ("benchmark: TTFT with JSON schema against without: 5x slower", "host"),
    ("user: nvidia-smi shows GPU utilization drops to: 0-30%; workload: concurrent requests: 100; "
     "process: one python process: 100% CPU", "host"),
    ("benchmark: image requests, TTFT: 9 s; profile: image preprocessing on CPU: 7.5 s", "host"),
    ("trace: tokenization of a 100k prompt: 1.9 s; benchmark: TTFT: 2.4 s", "host"),
    ("benchmark: output tok/s with logprobs: 140; benchmark: output tok/s without logprobs: 900", "host"),
    ("benchmark: time per step with xgrammar: 48 ms; benchmark: time per step without grammar: 12 ms", "host"),
    ("metric: vllm:num_preemptions_total: 482; metric: kv_cache_usage_perc: 0.99", "capacity"),
    ("log: KV cache usage: 99.8%; log: Waiting: 34 reqs; log: Running: 21 reqs", "capacity"),
    ("statement: swap: KV blocks are swapped to CPU; log: Swapped: 12 reqs; log: GPU KV cache "
     "usage: 99%", "capacity"),
    ("metric: lmcache retrieve time: 1.8 s; metric: prefill of the same tokens: 0.7 s", "offload"),
    ("benchmark: TTFT, no connector: 1.1 s; benchmark: TTFT, OffloadingConnector: 2.9 s", "offload"),
    ("benchmark: TTFT on disk hit: 3.2 s; benchmark: TTFT on cold prefill: 1.5 s", "offload"),
    ("log: KV load from SSD: 0.9 GB/s; metric: bytes a request: 6 GB; benchmark: TTFT: 7.1 s", "offload"),
    ("nsys: memcpy D2H during decode: 38% of the step", "offload"),
    ("benchmark: CPU offload throughput penalty: -35%", "offload"),
    ("benchmark: hicache write-through decode overhead: 30% slower", "offload"),
    ("metric: NIXL transfer p50: 900 ms; benchmark: TTFT p50: 1.3 s", "network"),
    ("env: NCCL_P2P_DISABLE: 1; benchmark: TP2 decode: 18 tok/s; benchmark: single GPU decode: 31 "
     "tok/s", "network"),
    ("benchmark: decode TP=1: 48 tok/s; benchmark: decode TP=2: 31 tok/s; hardware: interconnect: "
     "PCIe 3.0 x8", "network"),
    ("benchmark: pipeline parallel over 1GbE, decode: 2 tok/s; benchmark: single node decode: 9 tok/s", "network"),
    ("hardware: inter-node link: 10 Gb/s; benchmark: KV transfer rate: 1.1 GB/s; benchmark: TTFT: 9 s", "network"),
    ("log: NCCL: NET/Socket; benchmark: TTFT: 6 s", "network"),
    ("profile: all-reduce: 62% of decode time", "network"),
    ("log: cached_tokens of every request: 0; workload: prompts: identical 8k system prompt", "hit_rate"),
    ("user: chat template: inserts the current date and time at the front of every prompt; "
     "benchmark: TTFT: 5 s", "hit_rate"),
    ("metric: hit rate with round-robin over 8 replicas: 11%; metric: hit rate with cache-aware "
     "routing: 84%", "hit_rate"),
    ("config: prefix caching: disabled for this model; workload: shared prefix: 12000 tokens; "
     "benchmark: TTFT: 4 s", "hit_rate"),
    ("log: slot: forcing full prompt re-processing", "hit_rate"),
    ("metric: expected reuse: 95%; metric: prefix cache hit rate: 0.2%", "hit_rate"),
    ("benchmark: TTFT turn 1: 4 s; benchmark: TTFT turn 2: 4.2 s; workload: history: same prefix "
     "plus 100 tokens", "hit_rate"),
    ("benchmark: decode: 6 tok/s; hardware: DDR5 bandwidth: 80 GB/s; model: active weights per "
     "token: 13 GB", "bandwidth"),
    ("ncu: achieved DRAM bandwidth: 1.8 TB/s of 2.0 TB/s", "bandwidth"),
    ("metric: effective bandwidth of decode: 710 GB/s; hardware: memory bandwidth: 936 GB/s", "bandwidth"),
    ("benchmark: decode FP16: 30 tok/s; benchmark: decode AWQ 4-bit: 78 tok/s; workload: batch size: 1", "bandwidth"),
    ("benchmark: TTFT for a 200k prompt: 92 s; workload: prompt length: 200000", "compute"),
    ("benchmark: ITL without prefill traffic: 20 ms; benchmark: ITL with chunked prefill running: "
     "140 ms", "compute"),
    ("user: streaming of all users: pauses for 5 s whenever a new long prompt arrives", "compute"),
    ("benchmark: spec decode acceptance length: 1.1; benchmark: tok/s with spec decode: 40; "
     "benchmark: tok/s without: 55", "compute"),
    ("benchmark: decode with FlashInfer: 90 tok/s; benchmark: decode with XFormers: 41 tok/s", "compute"),
    ("benchmark: decode with fp8 KV cache: 20 tok/s; benchmark: decode with auto KV cache: 43 tok/s", "compute"),
    ("benchmark: TTFT at concurrency 1: 0.3 s; benchmark: TTFT at concurrency 64: 19 s; flag: "
     "max-num-seqs: 4", "queueing"),
    ("metric: num_requests_waiting: 120; metric: num_requests_running: 32; flag: max_num_seqs: 32; "
     "metric: kv_cache_usage: 0.4", "queueing"),
    ("workload: arrival rate: 6 req/s; benchmark: completed requests per second: 3.9; benchmark: "
     "mean TTFT: 70 s", "queueing"),
    ("log: Running: 0 reqs; log: Waiting: 0 reqs; log: Avg prompt throughput: 0.0 tokens/s; log: "
     "Avg generation throughput: 0.0 tokens/s", "idle"),
    ("process: vllm serve CPU with no clients connected: 100%; nvml: GPU utilization: 0%", "idle"),
    ("benchmark: TTFT: 120 ms; benchmark: TPOT: 9 ms; benchmark: successful requests: 1000 of 1000", "healthy"),
    ("benchmark: ITL mean: 15 ms; benchmark: TTFT mean: 90 ms; metric: waiting: 0", "healthy"),
    ("benchmark: throughput when guided decoding is used: drops from 2200 tok/s to 310 tok/s", "host"),
    ("benchmark: TTFT after enabling the KV connector to disk: rises from 0.8 s to 3.1 s", "offload"),
    ("user: decode speed with tensor parallel 2 instead of 1: falls from 45 to 28 tok/s", "network"),
    ("benchmark: ITL with eager mode instead of CUDA graphs: from 12 ms to 41 ms", "host"),
    ("benchmark: throughput after disabling async scheduling: 1900 -> 1200 tok/s", "host"),
    ("benchmark: TTFT with KV stored on NFS: 6 s; benchmark: TTFT without the store: 1.5 s", "offload"),
    ("benchmark: P2P disabled: 21 tok/s; benchmark: P2P enabled: 38 tok/s", "network"),
    ("benchmark: NCCL all-reduce bus bandwidth: 3 GB/s; hardware: NVLink: 300 GB/s; benchmark: "
     "decode, TP=8: 9 tok/s", "network"),
    ("log: KV Transfer metrics: avg xfer time 820 ms, throughput 310 MB/s; benchmark: TTFT: 2.1 s", "network"),
    ("metric: prefix_cache_hits_total / prefix_cache_queries_total: 0 / 1200000; workload: "
     "prompts: same system prompt of 3k tokens", "hit_rate"),
    ("metric: usage.prompt_tokens_details.cached_tokens: always 0; workload: repeated prompt: 5 times", "hit_rate"),
    ("metric: cache hit rate, replicas 1 / 4: 85% / 21%", "hit_rate"),
    ("log: cached-token: 0 for identical prompts; flag: --disable-radix-cache: set; benchmark: "
     "TTFT: 3 s", "hit_rate"),
    ("metric: evicted blocks per minute: 120000; metric: KV usage: 99%; metric: requests waiting: "
     "18; metric: requests running: 30", "capacity"),
    ("log: warning: not enough KV cache space for a new request; log: waiting: 3", "capacity"),
    ("log: Cannot schedule request: no free blocks", "capacity"),
    ("log: retracting requests: KV cache pool is full", "capacity"),
    ("profile: time in detokenization thread: 70% of samples", "host"),
    ("profile: GPU idle between steps: 41% of the step", "host"),
    ("trace: scheduler.schedule(): 18 ms per step; trace: model forward: 22 ms", "host"),
    ("top: python processes: 1 of 32 cores at 100%; nvml: GPU util: 22%; workload: concurrency: 128", "host"),
    ("metric: event loop lag: 1.4 s; benchmark: TTFT: 2.0 s", "host"),
    ("log: Avg prompt throughput: 8200 tokens/s; log: Avg generation throughput: 60 tokens/s; log: "
     "Running: 20 reqs; log: Waiting: 90 reqs; log: GPU KV cache usage: 22%", "compute"),
    ("benchmark: prefill of 32k tokens: 9.1 s; benchmark: decode of 100 tokens: 1.2 s", "compute"),
    ("benchmark: TTFT / e2e latency: 11 s / 12 s; workload: prompt / output tokens: 60000 / 50; "
     "workload: concurrency: 1", "compute"),
    ("metric: spec decode acceptance rate: 12%; benchmark: tok/s, spec on: 33; benchmark: tok/s, "
     "spec off: 47", "compute"),
    ("metric: HBM bandwidth utilization: 93%; metric: SM occupancy: 20%", "bandwidth"),
    ("benchmark: tg128 f16: 12 t/s; benchmark: tg128 q4_0: 41 t/s", "bandwidth"),
    ("benchmark: tg at depth 0: 52 t/s; benchmark: tg at depth 16384: 37 t/s; benchmark: tg at "
     "depth 65536: 15 t/s", "bandwidth"),
    ("log: #running-req: 64; log: #queue-req: 200; log: token usage: 0.35; flag: "
     "--max-running-requests: 64", "queueing"),
    ("metric: queue time p50: 8.2 s; metric: prefill time p50: 0.3 s; metric: KV usage: 20%", "queueing"),
    ("workload: offered: 12 rps; benchmark: achieved: 7.5 rps; benchmark: TTFT p99: 33 s; metric: "
     "KV usage: 41%", "queueing"),
    ("metric: requests running: 0; metric: requests waiting: 0; nvml: GPU utilization: 100%; "
     "benchmark: generation throughput: 0 tok/s", "idle"),
    ("benchmark: throughput: 97% of offered; benchmark: TTFT p99: 0.8 s; benchmark: ITL p99: 30 "
     "ms; metric: preemptions: 0", "healthy"),
    ("metric: hit rate: 94%; benchmark: TTFT p95: 180 ms; benchmark: ITL p95: 19 ms", "healthy"),
]  # fmt: skip
MISLEADING = [
    "benchmark: throughput without offload vs with offload: 2x slower",
    "benchmark: decode on CPU vs GPU: 20x slower",
    "benchmark: throughput without JSON schema vs with: 1.1x faster",
    "benchmark: ITL with min_p / without: 61 ms / 18 ms",
    "log: Avg generation throughput: 3.1 tokens/s; log: Running: 1 reqs; flag: --enforce-eager: "
    "set; nvml: GPU utilization: 30%",
    "benchmark: TTFT under burst of 500 requests: 60 s; benchmark: TTFT single: 0.2 s",
    "benchmark: TTFT when clients rise from 1 to 50: from 0.4 s to 24 s",
    "nvml: GPU utilization, prefill workers: 98%; nvml: GPU utilization, decode workers: 12%; "
    "benchmark: TTFT: 8 s",
    "log: kv cache usage: 100%; log: evictions per second: 900; metric: hit rate: 4%; workload: "
    "users: 400 with own 8k history",
    "benchmark: TTFT when another user sends a 100k prompt: 14 s; benchmark: TTFT otherwise: 0.3 s",
    "statement: decode is limited by reading weights: 90% of peak bandwidth; nvml: memory "
    "utilization: 95%",
    "metric: router queue: 140; metric: engine waiting: 0; metric: engine running: 12; benchmark: "
    "TTFT: 25 s",
    "nvml: power: 60 W idle; log: note: no requests in the last hour",
]  # fmt: skip


def named(report: str) -> str:
    """Answer for rows that are written `kind: name: value`."""
    rows = [
        dict(zip(("kind", "name", "value"), row.split(": ", 2), strict=True)) for row in report.split("; ")
    ]
    found = diagnose(evidence_recording(rows, "r"))
    assert found.confidence.value != "high"
    return found.primary_name


@pytest.mark.parametrize(("told", "bound"), NAMED)
def test_another_wording_names_the_same(told, bound):
    assert named(told) == bound


@pytest.mark.parametrize("told", MISLEADING)
def test_a_side_mixed_up_names_nothing(told):
    assert named(told) == "insufficient_evidence"


@pytest.mark.parametrize(
    "told",
    [
        "benchmark: TTFT w/ LMCache: 3.1 s; benchmark: TTFT w/o LMCache: 1.2 s",
        "benchmark: time-to-first-token with LMCache: 3100 msec; benchmark: first-token latency without LMCache: 1.2 s",
        "benchmark: tput with LMCache: 300 tok/s; benchmark: throughput without LMCache: 900 tok/s",
    ],
)
def test_one_word_in_several_spellings_is_read_alike(told):
    assert named(told) == "offload"


@pytest.mark.parametrize(
    ("told", "bound"),
    [
        ("log: Running/Swapped/Pending: 8/0/40; flag: max-num-seqs: 8", "queueing"),
        ("log: KV cache util/Waiting: 99%/31 reqs", "capacity"),
        ("benchmark: tok/s: 120/690", "insufficient_evidence"),
    ],
)
def test_sides_without_blanks_between_them_are_told_apart(told, bound):
    assert named(told) == bound
