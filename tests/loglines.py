"""Lines as engines log them, and what a source that was read from such lines says."""

from __future__ import annotations

from pathlib import Path

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.engines.logline import ENGINE
from kvdoctor.readers import read
from kvdoctor.timeline import Timeline

LOGS = Path(__file__).parent / "fixtures" / "logs"
STATS = (
    "Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {made} tokens/s, Running: {run} reqs, "
    "Waiting: {wait} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: {hits}%"
)


def stats(
    second: int, *, prompt=10.0, made=40.0, run=1, wait=0, usage=5.0, hits=50.0, rank="000", minute=0
) -> str:
    """One periodic line of vLLM."""
    told = STATS.format(prompt=prompt, made=made, run=run, wait=wait, usage=usage, hits=hits)
    return f"INFO 07-18 09:{minute:02d}:{second:02d} [loggers.py:111] Engine {rank}: {told}\n"


def source(tmp_path, text, name="vllm.log"):
    """The one source of a log."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = read([str(path)]).sources
    return found


def values(found, quantity) -> list[float]:
    """What a source says of a quantity, in order."""
    line = Timeline(found, ENGINE, 0, len(found.at) - 1)
    pairs = [pair for c in line.columns(quantity) for pair in zip(c.index, c.value, strict=True)]
    return [value for _, value in sorted(pairs)]


# One line of each kind, in a form that the engine wrote at some time, and what it says.
FORMS = [
    ("vLLM V0", "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7220.5 tokens/s, Running: 2 reqs, "
     "Swapped: 3 reqs, Pending: 98 reqs, GPU KV cache usage: 73.8%, CPU KV cache usage: 0.5%.",
     {m.SWAPPED: 3, m.WAITING: 98, m.KV_CACHE_USAGE: 0.738}),
    ("vLLM 0.32", "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: "
     "1 reqs, Waiting: 4 reqs, Deferred: 3 reqs, KV fetch: 5 waiting to start, 6 in progress, 7 completed waiting, "
     "CPU KV cache usage: 1.5%, External prefix cache hit rate: 12.5%",
     {m.WAITING_DEFERRED: 3, m.KV_FETCH_IN_PROGRESS: 6, m.KV_FETCH_COMPLETED: 7, lm.EXTERNAL_HIT_RATE: 0.125}),
    ("vLLM transfers", "KV Transfer metrics: Num successful transfers=31, Avg xfer time (ms)=38.7, P90 xfer time "
     "(ms)=50, Avg post time (ms)=6.7, P90 post time (ms)=9.0, Avg MB per transfer=167.0, Throughput (MB/s)=4319.0",
     {lm.TRANSFER_TIME: 0.0387, lm.TRANSFER_SETUP: 0.0067, lm.TRANSFER_RATE: 4319 * 2**20}),
    ("vLLM speculation", "SpecDecoding metrics: Mean acceptance length: 2.31, Accepted throughput: 1.0 tokens/s",
     {lm.ACCEPT_LENGTH: 2.31}),
    ("vLLM start, two lines", "GPU KV cache size: 99,856 tokens", {lm.POOL_TOKENS: 99856}),
    ("vLLM start, one line", "CPU KV cache size: 6,144 tokens, Maximum concurrency for 2,048 tokens per request: 3.00x",
     {lm.POOL_TOKENS: 6144, lm.FULL_LENGTH: 3.0, lm.MAX_LENGTH: 2048}),
    ("vLLM preemption", "Sequence group 5 is preempted by PreemptionMode.SWAP mode because there is not enough KV",
     {m.PREEMPTIONS: 1, lm.SWAPS: 1}),
    ("SGLang prefill", "[2025-06-05 15:08:56 TP0] Prefill batch. #new-seq: 3, #new-token: 15000, #cached-token: 7, "
     "token usage: 0.06, #running-req: 7, #queue-req: 40",
     {lm.BATCH_NEW: 15000, lm.BATCH_CACHED: 7, m.WAITING: 40, m.KV_CACHE_USAGE: 0.06}),
    ("SGLang decode", "Decode batch, #running-req: 4, #full token: 2642688, full token usage: 1.00, swa token usage: "
     "0.06, accept len: 2.5, cuda graph: False, gen throughput (token/s): 429.34, #queue-req: 3",
     {m.RUNNING: 4, m.KV_CACHE_USAGE: 1.0, lm.GENERATION_RATE: 429.34, lm.ACCEPT_LENGTH: 2.5, lm.CUDA_GRAPH: 0}),
    ("SGLang retraction", "KV cache pool is full. Retract requests. #retracted_reqs: 5, #new_token_ratio: 0.1 -> 0.9",
     {m.PREEMPTIONS: 5, m.KV_CACHE_USAGE: 1.0}),
    ("SGLang start", "max_total_num_tokens=436741, chunked_prefill_size=8192, max_prefill_tokens=16384, "
     "max_running_requests=2049, context_len=131072",
     {lm.POOL_TOKENS: 436741, lm.STEP_TOKENS: 8192, lm.MAX_RUNNING: 2049}),
    ("LMCache look-up", "Reqid: cmpl-1, Total tokens 15444, LMCache hit tokens: 15444, need to load: 3",
     {lm.TIER_TOTAL: 15444, lm.TIER_HIT: 15444, lm.TIER_NEED: 3}),
    ("LMCache load", "LMCache INFO: Retrieved 256 out of 256 required tokens (from 512 total). size: 0.0137 GB, cost "
     "12.5 ms, throughput: 1.5 GB/s",
     {lm.LOADED: 256, lm.LOAD_TIME: 0.0125, lm.LOAD_RATE: 1.5 * 2**30}),
    ("LMCache store", "Stored 256 out of total 256 tokens. size: 0.0137 gb, cost 5.6482 ms, throughput: 2.5 GB/s",
     {lm.STORED: 256, lm.STORE_TIME: 0.0056482, lm.STORE_RATE: 2.5 * 2**30}),
    ("TensorRT-LLM", "[TRT-LLM] [I] iter = 7, global_rank = 0, rank = 0, host_step_time = 25.5ms, "
     "num_scheduled_requests: 8, states = {}", {lm.STEP: 0.0255, m.RUNNING: 8}),
    ("TensorRT-LLM 0.20", "[05/02/2025-11:00:00] [TRT-LLM] [I] iter = 9, rank = 0, currank_total_requests = 0/0, "
     "elapsed_time = 0.0125s, timestamp = 2025-05-02 11:00:00, num_scheduled_requests: 6, states = {}",
     {lm.STEP: 0.0125, m.RUNNING: 6}),
    ("LMCache load, chunks", "INFO LMCache: Retrieved 4 chunks (1024 tokens in total) --hit rate 31.00% -- elapsed "
     "time 0.0125 [2025-02-01 10:00:00,120]", {lm.LOADED: 1024, lm.LOAD_TIME: 0.0125}),
    ("LMCache without room", "LMCache WARNING: Failed to allocate memory for tensor(torch.Size([2, 32, 64, 128]), "
     "torch.float16) because no memory is available", {lm.TIER_FULL: 1}),
    ("Mooncake's benchmark", "Test completed: duration 10.02, batch count 512, throughput 0.75",
     {lm.TRANSFER_RATE: 0.75e9}),
    ("llama.cpp", "prompt eval time =  2942.25 ms /  2771 tokens ( 1.06 ms per token,  941.80 tokens per second)",
     {lm.PREFILL_TIME: 2.94225, lm.PREFILL_RATE: 941.8, lm.BATCH_NEW: 2771}),
    ("llama.cpp decode", "       eval time =     770.41 ms /    41 tokens (   18.79 ms per token,    53.22 tokens per "
     "second)", {lm.DECODE_TIME: 0.77041, lm.DECODE_RATE: 53.22}),
    ("TGI", 'text_generation_router: total_time="165.2s" validation_time="5.67ms" queue_time="161.4s" '
     'inference_time="3.8s" time_per_token="40.1ms"',
     {lm.QUEUED: 161.4, lm.REQUEST_TIME: 165.2, lm.ITL: 0.0401}),
    ("LMDeploy", "[2026-02-05 17:05:17 DP0] Avg thr (in/out): 4618.5 / 2756.3 tokens/s, API server "
     "(completed/routed/waiting): 1 / 50 / 50, Engine (running/waiting): 45 / 5, KV cache: 21.6%,",
     {lm.PROMPT_RATE: 4618.5, lm.GENERATION_RATE: 2756.3, m.RUNNING: 45, m.WAITING: 5, m.KV_CACHE_USAGE: 0.216}),
    ("Mooncake", "[Metrics] Transfer Engine Stats (over last 5s): Throughput: 812.5 MB/s | Latency Distribution",
     {lm.TRANSFER_RATE: 812.5 * 2**20}),
    ("NIXL under Dynamo", "nixl.write_blocks: Time to init xfer: 1800.25 ms", {lm.TRANSFER_SETUP: 1.80025}),
    ("UCX", "ucp_context_0 intra-node cfg#2 rma_am(tcp/eth1) amo_am(tcp/eth1) am(tcp/eth1 cuda_ipc/cuda)", {lm.TCP: 1}),
]  # fmt: skip
