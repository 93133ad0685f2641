"""TensorRT-LLM: what `trtllm-serve` tells at /prometheus/metrics. Its /metrics is JSON that a reading drains."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, labelled, sampled

_BLOCK = "trtllm_kv_cache_tokens_per_block"
_REUSED, _MISSED = "trtllm_kv_cache_reused_blocks", "trtllm_kv_cache_missed_blocks"
_HITS = "trtllm_prompt_cache_hit_tokens"
_CACHED = "trtllm_prompt_cached_tokens"


_ITERATIONS = {
    m.KV_CACHE_USAGE: any_of("trtllm_kv_cache_utilization"),
    m.KV_USED: ((Select("trtllm_kv_cache_used_blocks", times=_BLOCK),),),
    m.POOL_TOKENS: ((Select("trtllm_kv_cache_max_blocks", times=_BLOCK),),),
    m.BLOCK_SIZE: any_of(_BLOCK),
    m.RUNNING: any_of("trtllm_num_requests_running"),
    m.WAITING: any_of("trtllm_num_requests_waiting"),
    # A gauge of requests stopped now; how many were stopped since is not told.
    m.PAUSED: any_of("trtllm_num_paused_requests"),
    m.PREFIX_QUERIES: ((Select(_REUSED, times=_BLOCK), Select(_MISSED, times=_BLOCK)),),
    m.PREFIX_HITS: ((Select(_REUSED, times=_BLOCK),),),
    m.LOAD_BYTES: any_of("trtllm_kv_cache_onboard_bytes"),
    m.STORE_BYTES: any_of("trtllm_kv_cache_offload_bytes"),
    m.TIER_FILL: any_of("trtllm_kv_cache_host_utilization"),
    m.SPEC_DRAFT_TOKENS: any_of("trtllm_spec_decode_num_draft_tokens"),
    m.SPEC_ACCEPTED: any_of("trtllm_spec_decode_num_accepted_tokens"),
    m.SPEC_LENGTH: any_of("trtllm_spec_decode_acceptance_length"),
}

_REQUESTS = {
    m.FINISHED: any_of("trtllm_request_success", "trtllm_num_requests_completed"),
    m.FAILED: any_of("trtllm_request_error"),
    m.TTFT: any_of("trtllm_time_to_first_token_seconds"),
    m.TPOT: any_of("trtllm_time_per_output_token_seconds"),
    m.E2E: any_of("trtllm_e2e_request_latency_seconds"),
    m.QUEUE: any_of("trtllm_request_queue_time_seconds"),
    m.PREFILL: any_of("trtllm_request_prefill_time_seconds"),
    m.DECODE: any_of("trtllm_request_decode_time_seconds"),
    m.PROMPT_TOKENS: any_of("trtllm_prompt_tokens"),
    m.PROMPT_COMPUTED: ((Select("trtllm_prompt_tokens", beside=_CACHED), Select(_CACHED, scale=-1.0)),),
    m.PROMPT_LOCAL_HIT: any_of(_CACHED),
    m.CACHED_HOST: ((labelled(_HITS, cache_tier="host"),),),
    m.CACHED_DISK: ((labelled(_HITS, cache_tier="disk"),),),
    m.GENERATED: any_of("trtllm_generation_tokens"),
    m.TRANSFER_BYTES: ((sampled("trtllm_kv_transfer_bytes", "sum"),),),
    m.TRANSFER_SECONDS: ((sampled("trtllm_kv_transfer_latency_seconds", "sum"),),),
    m.TRANSFERS: ((sampled("trtllm_kv_transfer_latency_seconds", "count"),),),
    m.PROCESS_START: any_of("process_start_time_seconds"),
    m.PROCESS_CPU: any_of("process_cpu_seconds"),
}

_ERAS = (Era("trtllm_kv_cache_iter_reuse_rate", since="1.3"), Era("trtllm_num_requests_running", since="1.2"))

ENGINE = Engine(
    name="tensorrt_llm",
    prefixes=("trtllm_",),
    renames=(("trtllm:", "trtllm_"),),
    signals={**_ITERATIONS, **_REQUESTS},
    eras=_ERAS,
    default_port=8000,
    metrics_path="/prometheus/metrics",
    at_finish=True,
)

_BARE = (
    "e2e_request_latency_seconds",
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "request_queue_time_seconds",
    "request_success",
)

UNPREFIXED = replace(
    ENGINE,
    renames=tuple((name, f"trtllm_{name}") for name in _BARE),
    marks=_BARE,
    mark_label="engine_type",
    eras=tuple(Era(f"trtllm_{name}", until="1.1") for name in _BARE),
)
"""Up to 1.1 the five families had no prefix: anybody may export such names, but not with this label."""
