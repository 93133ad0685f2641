"""SGLang's lines, 0.4 to 0.5: prefill and decode batches, retraction, the start, its multi-round benchmark."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.readers.logs.line import GIB, Line, event, number, said

_USAGE = (
    # Hybrid models print one usage a pool (0.5.2 and later), that of full attention first.
    number(m.KV_CACHE_USAGE, rb"(?:full )?token usage: "),
    number(m.RUNNING, rb"#running-req: "),
    number(m.WAITING, rb"#queue-req: "),
)

LINES = (
    Line(
        "sglang",
        b"Prefill batch",
        (
            *_USAGE,
            number(lm.BATCH_SEQUENCES, rb"#new-seq: "),
            number(lm.BATCH_NEW, rb"#new-token: "),
            number(lm.BATCH_CACHED, rb"#cached-token: "),
            number(lm.PREFILL_RATE, rb"input throughput \(token/s\): "),
        ),
    ),
    Line(
        "sglang",
        b"Decode batch",
        (
            *_USAGE,
            number(lm.GENERATION_RATE, rb"gen throughput \(token/s\): "),
            number(lm.ACCEPT_LENGTH, rb"accept len: "),
            said(lm.CUDA_GRAPH, rb"cuda graph: True", 1.0),
            said(lm.CUDA_GRAPH, rb"cuda graph: False", 0.0),
            number(m.KV_FETCH_IN_PROGRESS, rb"#transfer-req: "),
        ),
    ),
    Line(
        "sglang",
        b"Retract requests",
        (number(m.PREEMPTIONS, rb"#retracted_reqs: "), event(m.PREEMPTIONS), event(m.KV_CACHE_USAGE)),
    ),
    Line(
        "sglang",
        b"max_total_num_tokens=",
        (
            number(lm.POOL_TOKENS, rb"max_total_num_tokens="),
            number(lm.MAX_RUNNING, rb"max_running_requests="),
            number(lm.STEP_TOKENS, rb"chunked_prefill_size="),
            number(lm.PREFILL_TOKENS, rb"max_prefill_tokens="),
            number(lm.MAX_LENGTH, rb"context_len="),
        ),
        start=True,
    ),
    Line("sglang", b"KV Cache is allocated", (number(lm.POOL_TOKENS, rb"#tokens: "),), start=True),
    Line("sglang", b"server_args=", (said(lm.CACHING, rb"disable_radix_cache=True", 0.0),), start=True),
    Line("sglang", b"KV transfer", (number(lm.TRANSFER_RATE, rb"speed[:=] ?", rb" ?GB/s", GIB),)),
    Line(
        "sglang",
        b"Average TTFT = ",
        (
            number(lm.TTFT, rb"Average TTFT = "),
            number(m.HITS_RATE_GAUGE, rb"Cache Hit Rate = "),
        ),
        needs=b"Round ",
        seconds=60.0,
        labels=(("by", "client"),),
    ),
)
