"""Lines of TensorRT-LLM, llama.cpp, TGI and LMDeploy, and of the benchmarks that serve load to an engine."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.readers.logs.line import MS, PERCENT, Line, event, number

_SECONDS = ((rb"\xc2\xb5s", 1e-6), (rb"us", 1e-6), (rb"ms", MS), (rb"s\b", 1.0))
"""Units that Rust prints a duration in."""

TENSORRT = (
    # Up to 0.20: the loop's time under another name.
    Line(
        "tensorrt_llm",
        b"currank_total_requests = ",
        (
            number(lm.STEP, rb"elapsed_time = ", rb"s\b"),
            number(m.RUNNING, rb"num_scheduled_requests: "),
        ),
        needs=b"elapsed_time = ",
    ),
    Line(
        "tensorrt_llm",
        b"host_step_time = ",
        (
            number(lm.STEP, rb"host_step_time = ", rb" ?ms", MS),
            number(m.RUNNING, rb"num_scheduled_requests: "),
        ),
    ),
    Line(
        "tensorrt_llm",
        b"Active Request Count",
        (
            number(m.RUNNING, rb'Active Request Count"?: ?"?'),
            number(lm.STEP, rb'Iteration Latency(?: \(ms\))?"?: ?"?', scale=MS),
            number(lm.POOL_TOKENS, rb'Max KV cache blocks"?: ?"?'),
        ),
    ),
    Line(
        "tensorrt_llm",
        b'"iterLatencyMS"',
        (
            number(lm.STEP, rb'"iterLatencyMS": ?', scale=MS),
            number(m.RUNNING, rb'"numActiveRequests": ?'),
            number(m.WAITING, rb'"numQueuedRequests": ?'),
            number(m.SWAPPED, rb'"numPausedRequests": ?'),
            number(m.KV_CACHE_USAGE, rb'"usedShare": ?'),
            number(m.HITS_RATE_GAUGE, rb'"cacheHitRate": ?'),
            number(lm.BATCH_NEW, rb'"numCtxTokens": ?'),
            number(lm.MAX_RUNNING, rb'"maxNumActiveRequests": ?'),
            number(lm.BLOCK, rb'"tokensPerBlock": ?'),
        ),
    ),
    Line(
        "tensorrt_llm",
        b"max tokens in paged KV cache",
        (number(lm.POOL_TOKENS, rb"paged KV cache \("),),
        start=True,
    ),
    Line(
        "tensorrt_llm", b"KV cache pages per sequence", (number(lm.LENGTH_CAP, rb"sequence: "),), start=True
    ),
    Line("tensorrt_llm", b"Number of tokens per block", (number(lm.BLOCK, rb"per block: "),), start=True),
)

LLAMA = (
    # `eval time` is also the end of `prompt eval time`.
    Line(
        "llama.cpp",
        b"eval time",
        (
            number(lm.PREFILL_TIME, rb"prompt eval time\s*=\s*", rb" ms", MS),
            number(lm.PREFILL_RATE, rb"prompt eval time.*?ms per token,\s*", rb" tokens per second"),
            number(lm.DECODE_TIME, rb"(?<!prompt )eval time\s*=\s*", rb" ms", MS),
            number(lm.DECODE_RATE, rb"(?<!prompt )eval time.*?ms per token,\s*", rb" tokens per second"),
            number(lm.BATCH_NEW, rb"prompt eval time\s*=\s*[\d.]+ ms /\s*", rb" tokens"),
        ),
        needs=b" ms",
    ),
    Line("llama.cpp", b"selected slot by", (number(lm.COMMON_SHARE, rb"(?:sim_best|similarity)[=:]? ?"),)),
    Line("llama.cpp", b"new prompt, n_ctx_slot", (number(lm.PROMPT_TOKENS, rb"task.n_tokens = "),)),
    Line("llama.cpp", b"forcing full prompt re-processing", (event(lm.REPROCESSED),)),
    Line("llama.cpp", b" space in the KV cache", (event(lm.NO_SPACE),), needs=b"find"),
)


TGI = (
    Line(
        "tgi",
        b"queue_time",
        tuple(
            number(quantity, name + rb'=?"?', unit, scale)
            for quantity, name in (
                (lm.REQUEST_TIME, rb"total_time"),
                (lm.QUEUED, rb"queue_time"),
                (lm.DECODE_TIME, rb"inference_time"),
                (lm.ITL, rb"time_per_token"),
            )
            for unit, scale in _SECONDS
        ),
    ),
    Line("tgi", b"max batch total tokens to", (number(lm.POOL_TOKENS, rb"total tokens to "),), start=True),
)

LMDEPLOY = (
    Line(
        "lmdeploy",
        b"Avg thr (in/out): ",
        (
            number(lm.PROMPT_RATE, rb"Avg thr \(in/out\): ", rb" /"),
            number(lm.GENERATION_RATE, rb"Avg thr \(in/out\): [\d.]+ / ", rb" tok"),
            number(m.RUNNING, rb"Engine \(running/waiting\): ", rb" /"),
            number(m.WAITING, rb"Engine \(running/waiting\): \d+ / "),
            number(m.KV_CACHE_USAGE, rb"KV cache: ", rb"%", PERCENT),
            number(m.HITS_RATE_GAUGE, rb"[Pp]refix cache hit rate: ", rb"%", PERCENT),
        ),
        seconds=10.0,
    ),
)

_CLIENT = (("by", "client"),)
_BENCHMARK = (
    (b"Mean TTFT (ms):", lm.TTFT, rb"Mean TTFT \(ms\): *", MS),
    (b"P99 TTFT (ms):", lm.TTFT, rb"P99 TTFT \(ms\): *", MS),
    (b"Mean TPOT (ms):", lm.ITL, rb"Mean TPOT \(ms\): *", MS),
    (b"Request throughput (req/s):", lm.SERVED, rb"throughput \(req/s\): *", 1.0),
    (b"raffic request rate:", lm.OFFERED, rb"request rate: *", 1.0),
    (b"equest concurrency:", lm.CONCURRENCY, rb"equest concurrency: *", 1.0),
)
"""What the serving benchmarks of vLLM and SGLang print at their end; a rate of `inf` is no number."""
CLIENT = tuple(
    Line("benchmark", needle, (number(quantity, before, scale=scale),), seconds=1.0, labels=_CLIENT)
    for needle, quantity, before, scale in _BENCHMARK
)

LINES = (*TENSORRT, *LLAMA, *TGI, *LMDEPLOY, *CLIENT)
