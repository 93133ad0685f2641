"""What reports say in words, factors and numbered settings, in wordings of our own, and rows that mislead."""

from __future__ import annotations

import time

import pytest

from kvdoctor.causes.logged.named import nature
from kvdoctor.diagnose import diagnose
from kvdoctor.model import Bound
from kvdoctor.readers.evidence import evidence_recording

NOTHING = "insufficient_evidence"
NAMED = [
    ("profile: hot spot: Scheduler.schedule", "host"),
    ("py-spy: top frame: detokenizer.decode", "host"),
    ("trace: most time spent in: ncclDevKernel_AllReduce_Sum", "network"),
    ("profile: dominant function: swap_blocks", "offload"),
    ("flamegraph: hottest function: xgrammar fill_next_token_bitmask", "host"),
    ("profile: bottleneck: paged_attention_v1_kernel", "compute"),
    ("maintainer: bottleneck: the pickle of multimodal inputs between processes", "host"),
    ("profile: 80% of samples: RadixCache.match_prefix", "host"),
    ("user: profiling shows: all-reduce dominates the decode step", "network"),
    ("profile: bottleneck: cudaMemcpyAsync DtoH", "offload"),
    ("perf: where the time goes: sha256 hashing of blocks", "host"),
    ("py-spy: main thread is in: zmq recv and msgpack decode", "host"),
    ("benchmark: decode speed with JSON schema vs plain: 6x slower", "host"),
    ("benchmark: TTFT with LMCache compared to without: 2.5x higher", "offload"),
    ("benchmark: throughput, CPU offload enabled vs disabled: -45%", "offload"),
    ("benchmark: tokens/s, TP=4 against TP=1: -38%", "network"),
    ("benchmark: output rate with int4 KV cache compared with fp16: 3x slower", "compute"),
    ("benchmark: decode throughput triton backend vs flashinfer: 2.1x slower", "compute"),
    ("benchmark: throughput with speculative decoding vs without: 30% lower", "compute"),
    ("log: # GPU blocks: 20; log: in-flight requests: 64", "capacity"),
    ("workload: prompts submitted at once: 50000; benchmark: TTFT: 400 s", "queueing"),
    ("log: running requests: 16; config: max_num_seqs: 16; metric: steps with waiting requests: 60%", "queueing"),
    ("user: while one request with a huge max_tokens runs: all other requests are queued; doc: "
     "policy: reserves blocks for the full output length", "capacity"),
    ("statement: scheduler: reserves max_model_len of KV for each request; user: others: wait "
     "until the first ends", "capacity"),
    ("metric: hit rate for prefixes shorter than 1024 tokens: 0%; config: caching: on", "hit_rate"),
    ("statement: effect: redundant prefill of tokens that were computed already", "hit_rate"),
    ("metric: cached tokens when prompts are below 512 tokens: 0", "hit_rate"),
    ("model: weights: 16 GB/token; hardware: memory bandwidth: 450 GB/s; benchmark: decode rate: "
     "24 tok/s", "bandwidth"),
    ("metric: RDMA operations per transfer: 80000; metric: KV transfer rate: 3 GB/s; hardware: "
     "NIC: 400 Gb/s", "network"),
    ("benchmark: transfer rate, one NIC: 22 GB/s; benchmark: transfer rate, four NICs: 14 GB/s", "network"),
    ("profile: KV transfer time, build A: 310 ms; profile: KV transfer time, build B: 2 ms; log: "
     "UCX transport: bounce buffers", "network"),
    ("benchmark: 1 GPU: 900 tok/s; benchmark: 4 GPUs: 510 tok/s", "network"),
    ("benchmark: throughput, 2x H100 / 8x H100: 3000 tok/s / 1900 tok/s", "network"),
    ("process: CPU of the engine while idle: 100%; workload: traffic: none", "idle"),
    ("process: scheduler process CPU: 99%; workload: requests: 0", "idle"),
    ("nvml: GPU utilization with no requests: 98%", "idle"),
    ("workload: request rate: 10 req/s; benchmark: request throughput: 9.8 req/s; benchmark: TTFT "
     "p99: 0.6 s; benchmark: failed requests: 0", "healthy"),
    ("user: running requests: freeze while a long prompt is prefilled", "compute"),
    ("statement: prefetch from the store: serialized, one request after another; benchmark: TTFT: 4 s", "offload"),
    ("statement: weights: mostly in system RAM; benchmark: decode: 2.1 tok/s", "offload"),
    ("flag: --cpu-offload-gb: 40; benchmark: generation throughput: 3 tok/s", "offload"),
    ("statement: experts: kept in host memory; hardware: host memory bandwidth: 90 GB/s; "
     "benchmark: decode: 5 tok/s", "bandwidth"),
    ("benchmark: tok/s at num_ctx 4096: 40; benchmark: tok/s at num_ctx 65536: 6", "capacity"),
    ("maintainer: reason: requests get preempted over and over; log: waiting: 60; log: running: 120", "capacity"),
    ("benchmark: TTFT, context 4096: 0.9 s; benchmark: TTFT, context 32768: 14 s", "compute"),
    ("log: GPU P2P: no peer access; hardware: GPUs: 4x L40S, no NVLink; nvml: GPU utilization: 42%", "network"),
    ("benchmark: throughput, max-num-seqs 16: 400 tok/s; benchmark: throughput, max-num-seqs 256: "
     "2100 tok/s", "queueing"),
    ("flag: --max-num-seqs: 8 -> 128; benchmark: TTFT: 14 s -> 0.8 s", "queueing"),
    ("benchmark: tok/s with --max-loras 1 / --max-loras 8: 120 / 690", "queueing"),
    ("benchmark: throughput, num-scheduler-steps 1 / 8: 1500 tok/s / 2600 tok/s", "host"),
    ("benchmark: output throughput, enforce-eager: 410 tok/s; benchmark: output throughput, CUDA "
     "graphs: 1300 tok/s", "host"),
    ("benchmark: TTFT with 1 tokenizer worker: 6 s; benchmark: TTFT with 8 tokenizer workers: 0.9 s", "host"),
    ("benchmark: decode throughput unpinned / numactl pinned: 19 tok/s / 41 tok/s", "host"),
    ("log: Warning: sequence group is preempted by PreemptionMode.RECOMPUTE; log: waiting: 12", "capacity"),
    ("log: token usage: 0.99; log: #running-req: 48; log: #queue-req: 120", "capacity"),
    ("log: GPU KV cache usage: 98.7%; log: Running: 12 reqs, Waiting: 88 reqs", "capacity"),
    ("log: Running: 256 reqs, Waiting: 400 reqs; log: GPU KV cache usage: 31%; flag: "
     "--max-num-seqs: 256", "queueing"),
    ("log: Running: 2 reqs, Waiting: 50 reqs; log: GPU KV cache usage: 4.1%; log: Avg prompt "
     "throughput: 0.0 tokens/s; log: Avg generation throughput: 60 tokens/s", "queueing"),
    ("benchmark: TTFT first request: 4.1 s; benchmark: TTFT second identical request: 4.0 s; log: "
     "Prefix cache hit rate: 0.0%", "hit_rate"),
    ("log: prefix cache hit rate: 0%; workload: system prompt: same 6000-token prompt in every request", "hit_rate"),
    ("log: prefix cache hit rate, block size 16 / block size 1024: 78% / 0%", "hit_rate"),
    ("metric: hit rate before the upgrade: 92%; metric: hit rate after upgrade to 0.9: 0%", "hit_rate"),
    ("metric: cache hit rate, template A / template B: 88% / 3%", "hit_rate"),
    ("benchmark: TTFT from GPU recompute: 1.1 s; benchmark: TTFT with SSD hit: 4.8 s", "offload"),
    ("benchmark: throughput w/o LMCache: 5.2 req/s; benchmark: throughput w/ LMCache: 3.1 req/s", "offload"),
    ("log: retrieve 12000 tokens: 3.1 s; log: throughput: 0.6 GB/s", "offload"),
    ("log: LMCache retrieve cost: 2.4 s; benchmark: TTFT: 2.9 s", "offload"),
    ("metric: KV transfer time: 4.2 s; benchmark: TTFT: 5.5 s", "network"),
    ("env: UCX_TLS: tcp; benchmark: KV transfer rate: 0.9 GB/s; benchmark: TTFT: 4 s", "network"),
    ("benchmark: TTFT colocated: 0.8 s; benchmark: TTFT disaggregated (1P1D): 6.1 s", "network"),
    ("benchmark: decode throughput single node TP8: 1900 tok/s; benchmark: decode throughput two "
     "nodes TP16: 700 tok/s", "network"),
    ("trace: all-reduce share of decode step: 48%", "network"),
    ("ncu: DRAM throughput of the decode kernel: 91%", "bandwidth"),
    ("nvml: memory bandwidth utilization during decode: 88%; workload: batch size: 1", "bandwidth"),
    ("model: weights: 140 GB; hardware: HBM bandwidth: 3.35 TB/s; benchmark: decode, batch 1: 19 tok/s", "bandwidth"),
    ("benchmark: decode Q8_0: 22 tok/s; benchmark: decode Q4_0: 39 tok/s", "bandwidth"),
    ("benchmark: decode at 1k context: 60 tok/s; benchmark: decode at 16k context: 34 tok/s; "
     "benchmark: decode at 64k context: 12 tok/s", "bandwidth"),
    ("benchmark: TTFT 4k prompt: 0.5 s; benchmark: TTFT 16k prompt: 2.2 s; benchmark: TTFT 64k "
     "prompt: 12 s", "compute"),
    ("benchmark: ITL p50: 18 ms; benchmark: ITL p99 while a 32k prompt prefills: 900 ms", "compute"),
    ("benchmark: decode with draft model: 31 tok/s; benchmark: decode without draft model: 44 tok/s", "compute"),
    ("benchmark: decode, FLASH_ATTN / TRITON_ATTN: 70 tok/s / 28 tok/s", "compute"),
    ("process: EngineCore CPU: 100% of one core; nvml: GPU utilization: 35%; workload: concurrency: 64", "host"),
    ("py-spy: _prepare_inputs: 44% of samples", "host"),
    ("trace: gap between decode steps: 14 ms; trace: GPU time per step: 9 ms", "host"),
    ("benchmark: TTFT p99 at 4 req/s: 0.4 s; benchmark: TTFT p99 at 12 req/s: 38 s; benchmark: ITL "
     "at 4 req/s: 21 ms; benchmark: ITL at 12 req/s: 23 ms", "queueing"),
    ("benchmark: offered load: 20 req/s; benchmark: completed: 11 req/s; benchmark: TTFT p50: 41 s", "queueing"),
    ("metric: time in queue p95: 21 s; benchmark: TTFT p95: 22 s; metric: KV usage: 22%", "queueing"),
    ("log: Running: 0 reqs, Waiting: 0 reqs; log: Avg generation throughput: 0.0 tokens/s; "
     "process: CPU: 100%", "idle"),
    ("benchmark: TTFT p95: 0.3 s; benchmark: TPOT p95: 21 ms; benchmark: failed requests: 0; "
     "workload: concurrency: 32", "healthy"),
]  # fmt: skip
MISLEADING = [
    "nsys: slowest kernel: dequantize_kv_cache_kernel",
    "profile: top kernel: fused_moe_kernel",
    "profile: bottleneck: none found",
    "user: suspicion: tokenizer might be the bottleneck",
    "maintainer: view: the scheduler is not the bottleneck",
    "statement: memory bandwidth is not the bottleneck: true",
    "benchmark: throughput with prefix caching vs without: 3x higher",
    "benchmark: throughput with offload vs without: +40%",
    "benchmark: our fork against upstream: 2x faster",
    "benchmark: release 0.9 compared with 0.8: 40% slower",
    "benchmark: throughput with 2 LoRA adapters vs 1: -3%",
    "log: # GPU blocks: 2000; log: in-flight requests: 64",
    "model: weights: 16 GB/token; hardware: memory bandwidth: 2000 GB/s; benchmark: decode rate: "
    "24 tok/s",
    "metric: RDMA operations per transfer: 80; metric: KV transfer rate: 45 GB/s; hardware: NIC: "
    "400 Gb/s",
    "benchmark: transfer rate, one NIC: 22 GB/s; benchmark: transfer rate, four NICs: 84 GB/s",
    "benchmark: throughput, 2x H100 / 8x H100: 3000 tok/s / 9900 tok/s",
    "process: CPU: 100%; client: requests: hang forever",
    "process: CPU: 100%; workload: requests: none; log: running: 3",
    "process: CPU of server with no load: 100%; benchmark: TTFT: 9 s",
    "workload: request rate: 10 req/s; benchmark: request throughput: 9.8 req/s; benchmark: TTFT "
    "p99: 0.6 s; benchmark: failed requests: 40",
    "workload: request rate: 10 req/s; benchmark: request throughput: 9.8 req/s; benchmark: TTFT "
    "p99: 3.6 s",
    "user: running requests: do not freeze while a long prompt is prefilled",
    "flag: --cpu-offload-gb: 0; benchmark: generation throughput: 3 tok/s",
    "log: weights loaded to CPU: yes; benchmark: decode: 90 tok/s",
    "maintainer: idea: requests might be preempted; log: waiting: 60; log: running: 120",
    "benchmark: TTFT, context 4096: 0.9 s; benchmark: TTFT, context 32768: 3 s",
    "log: Prefix cache hit rate: 12%",
    "user: it is slow: sometimes",
    "nvml: GPU utilization: 100%; process: CPU: 100%",
    "benchmark: throughput: 500 tok/s; hardware: GPU: A100",
    "benchmark: TTFT, version 0.6 / version 0.7: 0.4 s / 2 s",
    "benchmark: throughput, A100 / H100: 900 tok/s / 2100 tok/s",
    "benchmark: throughput, model 7B / model 70B: 2000 tok/s / 300 tok/s",
    "benchmark: TTFT of vLLM against TGI: 2x slower",
    "benchmark: latency with streaming vs without: 2x higher",
    "statement: weights: stored on disk, loaded at start; benchmark: decode: 8 tok/s",
    "user: clients: no requests fail; process: CPU: 80%",
    "flag: --max-num-seqs: 256; benchmark: throughput: 900 tok/s",
    "log: weights loaded in: 90 s from CPU; benchmark: decode: 12 tok/s",
    "maintainer: reply: prefill is not blocked by decode",
    "statement: paper: decode requests stall behind prefill in general systems",
    "workload: requests: none fail; process: CPU: 100%",
    "user: requests: none get answered; process: CPU: 100%",
    "profile: all-reduce: 12% of step",
    "benchmark: TTFT with 4 GPUs vs 2: 10% slower",
    "doc: policy: guaranteed_no_evict is the default; user: nothing waits: requests are blocked by a firewall",
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
def test_what_is_told_names_a_bound_or_a_state(told, bound):
    assert named(told) == bound


@pytest.mark.parametrize("told", MISLEADING)
def test_what_is_told_names_nothing(told):
    assert named(told) == NOTHING


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        ("Detokenizer.decode_batch", Bound.HOST),
        ("fill_next_token_bitmask", Bound.HOST),
        ("ncclDevKernel_AllGather_RING", Bound.NETWORK),
        ("cudaMemcpyAsync", Bound.OFFLOAD),
        ("paged_attention_v2_kernel", Bound.COMPUTE),
        ("memory bandwidth", Bound.BANDWIDTH),
        ("main", None),
    ],
)
def test_a_functions_name_tells_its_nature(function, bound):
    known = nature(function)
    assert (known[0] if known else None) == bound


@pytest.mark.parametrize(
    "piece", ["9", "9+", "requests ", "loads one ", "prefill decode blocked ", "10x slower ", "a_B"]
)
def test_long_rows_are_read_in_no_time(piece):
    rows = [
        dict.fromkeys(("name", "value", "note"), piece * 1000) | {"kind": kind}
        for kind in ("profile", "user")
    ]
    before = time.process_time()
    diagnose(evidence_recording(rows, "r"))
    assert time.process_time() - before < 1.0
