"""vLLM's lines, 0.2 (V0) to 0.32: the periodic line, transfers, speculation, preemptions, the start."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.readers.logs.line import MIB, MS, PERCENT, Line, event, number, said

_STATS = (
    number(lm.PROMPT_RATE, rb"prompt throughput: ", rb" tok"),
    number(lm.GENERATION_RATE, rb"generation throughput: ", rb" tok"),
    number(m.RUNNING, rb"Running: ", rb" req"),
    number(m.WAITING, rb"(?:Waiting|Pending): ", rb" req"),
    number(m.WAITING_DEFERRED, rb"Deferred: ", rb" req"),
    number(m.SWAPPED, rb"Swapped: ", rb" req"),
    number(m.KV_FETCH_WAITING, rb"KV fetch: ", rb" waiting"),
    number(m.KV_FETCH_IN_PROGRESS, rb"KV fetch: .{0,40}?", rb" in progress"),
    number(m.KV_FETCH_COMPLETED, rb"KV fetch: .{0,80}?", rb" completed"),
    # The pool's kind varies: GPU up to 0.29, then the kind of memory. V0 names a second pool, the CPU's swap space.
    number(m.KV_CACHE_USAGE, rb"KV cache usage: ", rb"%", PERCENT),
    number(m.HITS_RATE_GAUGE, rb"Prefix cache hit rate: (?:GPU: )?", rb"%", PERCENT),
    number(lm.EXTERNAL_HIT_RATE, rb"External prefix cache hit rate: ", rb"%", PERCENT),
)

# With LMCache or NIXL as connector. `MB` is MiB there.
_TRANSFER = (
    number(lm.TRANSFER_TIME, rb"Avg xfer time \(ms\)=", scale=MS),
    number(lm.TRANSFER_SETUP, rb"Avg post time \(ms\)=", scale=MS),
    number(lm.TRANSFER_RATE, rb"hroughput \(MB/s\)=", scale=MIB),
    number(lm.TRANSFER_BYTES, rb"Avg MB per transfer=", scale=MIB),
    number(lm.ERRORS, rb"[Ff]ailed (?:transfers|notifications)=", rb"\b"),
)

_SETTINGS = (
    said(lm.CACHING, rb"enable_prefix_caching'?[=:] ?False", 0.0),
    said(lm.CACHING, rb"enable_prefix_caching'?[=:] ?True", 1.0),
    number(lm.MAX_RUNNING, rb"max_num_seqs'?[=:] ?"),
    number(lm.STEP_TOKENS, rb"max_num_batched_tokens'?[=:] ?"),
    number(lm.MAX_LENGTH, rb"max_(?:seq|model)_len'?[=:] ?"),
    number(lm.BLOCK, rb"\bblock_size'?[=:] ?"),
)

LINES = (
    Line("vllm", b"generation throughput: ", _STATS, seconds=10.0),
    Line("vllm", b"KV Transfer metrics:", _TRANSFER),
    Line("vllm", b"SpecDecoding metrics:", (number(lm.ACCEPT_LENGTH, rb"[Mm]ean acceptance length: "),)),
    Line(
        "vllm",
        b"is preempted by",
        (event(m.PREEMPTIONS), said(lm.SWAPS, rb"\.SWAP mode")),
    ),
    Line(
        "vllm",
        b"KV cache size: ",
        (number(lm.POOL_TOKENS, rb"KV cache size: ", rb" tok"),),
        start=True,
    ),
    Line(
        "vllm",
        b"Maximum concurrency for",
        (
            number(lm.FULL_LENGTH, rb"per request: ", rb"x"),
            number(lm.MAX_LENGTH, rb"concurrency for ", rb" tok"),
        ),
        start=True,
    ),
    # V0: blocks of 16 tokens unless --block-size says otherwise.
    Line("vllm", b"# GPU blocks: ", (number(lm.POOL_TOKENS, rb"# GPU blocks: ", scale=16.0),), start=True),
    Line("vllm", b"Initializing a", _SETTINGS, needs=b"LLM engine", start=True),
    Line("vllm", b"non-default args:", _SETTINGS, start=True),
    Line("vllm", b"attention block size to", (number(lm.BLOCK, rb"block size to ", rb" tok"),), start=True),
)
