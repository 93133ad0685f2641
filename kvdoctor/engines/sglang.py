"""SGLang, 0.4.1 to 0.5.23: three generations of hit counters, two producers with clocks of their own."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, sampled

_MIB, _GIB = 2.0**20, 2.0**30
"""What the names of the transfer and HiCache families call MB and GB."""
_EFFECTIVE = "sglang:prefill_effective_tokens"
_REALTIME = "sglang:realtime_tokens"
_CACHED = "sglang:cached_tokens"
_ITL, _OLD_ITL = "sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"
_TTFT = "sglang:time_to_first_token_seconds"


def _effective(*modes: str) -> tuple[Select, ...]:
    return tuple(Select(_EFFECTIVE, (("mode", mode),), lazy=True) for mode in modes)


def _realtime(*modes: str) -> tuple[Select, ...]:
    return tuple(Select(_REALTIME, (("mode", mode),), lazy=True) for mode in modes)


def _cached(source: str) -> Select:
    return Select(_CACHED, (("cache_source", source),))


_SCHEDULER = {
    m.KV_CACHE_USAGE: any_of("sglang:token_usage", "sglang:full_token_usage"),
    m.KV_USED: any_of("sglang:kv_used_tokens", "sglang:num_used_tokens"),
    m.KV_EVICTABLE: any_of("sglang:kv_evictable_tokens"),
    m.POOL_TOKENS: any_of("sglang:max_total_num_tokens"),
    m.BLOCK_SIZE: any_of("sglang:page_size"),
    m.EVICTED: any_of("sglang:evicted_tokens"),
    m.RUNNING: any_of("sglang:num_running_reqs"),
    # Queues of the two sides of a pair stand beside the waiting queue, not inside it.
    m.WAITING: (
        (
            Select("sglang:num_queue_reqs"),
            Select("sglang:num_prefill_bootstrap_queue_reqs"),
            Select("sglang:num_prefill_prealloc_queue_reqs"),
            Select("sglang:num_decode_prealloc_queue_reqs"),
            Select("sglang:num_decode_transfer_queue_reqs"),
        ),
        (Select("sglang:num_waiting_reqs"),),
    ),
    m.KV_FETCH_WAITING: any_of("sglang:num_decode_prealloc_queue_reqs"),
    m.KV_FETCH_IN_PROGRESS: any_of("sglang:num_decode_transfer_queue_reqs"),
    # The gauge of the last interval (`num_retracted_reqs`) is no count; the older one grew for good.
    m.PREEMPTIONS: (
        (Select("sglang:num_retracted_requests"),),
        (Select("sglang:total_retracted_reqs"),),
        (sampled("sglang:num_retractions", "sum"),),
    ),
    m.STEPS: any_of("sglang:cuda_graph_passes"),
    m.DECODE_CONTEXT: any_of("sglang:decode_sum_seq_lens"),
    m.SPEC_LENGTH: any_of("sglang:spec_accept_length"),
    m.SPEC_DRAFTS: any_of("sglang:spec_verify_calls"),
    m.ESTIMATED_FLOPS: any_of("sglang:estimated_flops_per_gpu"),
    m.ESTIMATED_READ: any_of("sglang:estimated_read_bytes_per_gpu"),
    m.ESTIMATED_WRITE: any_of("sglang:estimated_write_bytes_per_gpu"),
}

# Each generation of hit counters answers for hits and lookups alike; the gauge `cache_hit_rate` is of the
# last prefill batch (and zeroed between them for most releases), so it is not read at all.
_PREFIX_CACHE = {
    m.PREFIX_QUERIES: (
        _effective("input", "device_hit", "host_hit", "storage_hit"),
        _realtime("prefill_compute", "prefill_cache"),
        (Select("sglang:prompt_tokens", beside=_CACHED),),
    ),
    m.PREFIX_HITS: (_effective("device_hit"), _realtime("prefill_cache"), (_cached("device"),), (Select(_CACHED),)),
    m.EXTERNAL_HITS: ((*_effective("host_hit", "storage_hit"), Select("sglang:storage_prefetch_unfulfilled_tokens")),),
    m.PROMPT_TOKENS: (
        _effective("input", "device_hit", "host_hit", "storage_hit"),
        _realtime("prefill_compute", "prefill_cache"),
        (Select("sglang:prompt_tokens"),),
    ),
    m.PROMPT_COMPUTED: (
        _effective("input"),
        _realtime("prefill_compute"),
        (Select("sglang:prompt_tokens", beside=_CACHED), Select(_CACHED, scale=-1.0)),
    ),
    m.PROMPT_LOCAL_HIT: (_effective("device_hit"),),
    m.PROMPT_EXTERNAL: (_effective("host_hit", "storage_hit"),),
    m.CACHED_DEVICE: (_effective("device_hit"), (_cached("device"),)),
    m.CACHED_HOST: (_effective("host_hit"), (_cached("host"),)),
    m.CACHED_DISK: (_effective("storage_hit"), (_cached("storage"),)),
    # `generation_tokens` moves when a request ends; gaps and first tokens are counted as they come.
    m.GENERATED: (
        _realtime("decode"),
        (sampled(_ITL, "count"), sampled(_TTFT, "count")),
        (sampled(_OLD_ITL, "count"), sampled(_TTFT, "count")),
        (Select("sglang:generation_tokens"),),
    ),
}  # fmt: skip

_REQUESTS = {
    m.FINISHED: (
        (Select("sglang:num_requests"),),
        (sampled("sglang:e2e_request_latency_seconds", "count"),),
    ),
    m.FAILED: any_of("sglang:num_aborted_requests"),
    m.TTFT: any_of(_TTFT),
    m.ITL: any_of(_ITL, _OLD_ITL),
    m.TPOT: any_of("sglang:request_time_per_output_token_seconds"),
    m.E2E: any_of("sglang:e2e_request_latency_seconds"),
    m.QUEUE: any_of("sglang:queue_time_seconds", "sglang:queue_time_s"),
    m.PROMPT_LENGTH: any_of("sglang:prompt_tokens_histogram"),
    m.OUTPUT_LENGTH: any_of("sglang:generation_tokens_histogram"),
    m.REQUEST_COMPUTED: any_of("sglang:uncached_prompt_tokens_histogram"),
    m.PROCESS_START: any_of("process_start_time_seconds"),
    m.PROCESS_CPU: any_of("process_cpu_seconds"),
}

_MOVEMENT = {
    m.TRANSFER_BYTES: ((sampled("sglang:kv_transfer_total_mb", "sum", _MIB),),),
    m.TRANSFER_SECONDS: ((sampled("sglang:kv_transfer_latency_ms", "sum", 1e-3),),),
    m.TRANSFERS: ((sampled("sglang:kv_transfer_latency_ms", "count"),),),
    m.TRANSFER_POST_SECONDS: (
        (
            sampled("sglang:kv_transfer_bootstrap_ms", "sum", 1e-3),
            sampled("sglang:kv_transfer_alloc_ms", "sum", 1e-3),
        ),
    ),
    m.TRANSFER_FAILURES: (
        (Select("sglang:num_transfer_failed_reqs"), Select("sglang:num_bootstrap_failed_reqs")),
    ),
    m.LOAD_BYTES: ((Select("sglang:load_back_bytes", every=True),),),
    m.LOAD_SECONDS: ((sampled("sglang:load_back_duration_seconds", "sum"),),),
    m.LOADS: ((sampled("sglang:load_back_duration_seconds", "count"),),),
    m.STORE_BYTES: ((Select("sglang:hicache_backup_bytes", every=True),),),
    m.STORE_SECONDS: ((sampled("sglang:hicache_backup_duration_seconds", "sum"),),),
    m.TIER_RATE: ((Select("sglang:prefetch_bandwidth", scale=_GIB),),),
    m.TIER_FILL: ((Select("sglang:hicache_host_used_tokens", over="sglang:hicache_host_total_tokens"),),),
    m.TIER_EVICTIONS: any_of("sglang:hicache_dropped_tokens"),
}

# First and last sampled release of each name (0.4.1 to 0.5.23 were sampled).
_ERAS = (
    Era(_OLD_ITL, until="0.4.3"),
    Era(_ITL, since="0.4.6"),
    Era(_CACHED, since="0.4.6"),
    Era("sglang:avg_request_queue_latency", since="0.4.6", until="0.5.2"),
    Era("sglang:num_grammar_queue_reqs", since="0.4.8"),
    Era("sglang:num_prefill_prealloc_queue_reqs", since="0.4.8", until="0.5.11"),
    Era("sglang:total_retracted_reqs", since="0.4.10", until="0.5.2"),
    Era("sglang:swa_token_usage", since="0.5.2"),
    Era("sglang:backup_pgs", since="0.5.2"),
    Era("sglang:queue_time_s", since="0.5.2", until="0.5.2"),
    Era("sglang:queue_time_seconds", since="0.5.3"),
    Era("sglang:is_cuda_graph", since="0.5.4"),
    Era("sglang:num_retractions", since="0.5.5", until="0.5.10"),
    Era("sglang:max_total_num_tokens", since="0.5.6"),
    Era(_REALTIME, since="0.5.7"),
    Era("sglang:num_retracted_requests", since="0.5.7"),
    Era("sglang:full_token_usage", since="0.5.10"),
    Era("sglang:kv_evictable_tokens", since="0.5.11"),
    Era("sglang:num_prefill_bootstrap_queue_reqs", since="0.5.12"),
    Era(_EFFECTIVE, since="0.5.18"),
    Era("sglang:scheduler_stage_seconds", since="0.5.20"),
    Era("sglang:request_time_per_output_token_seconds", since="0.5.22"),
)

ENGINE = Engine(
    name="sglang",
    prefixes=("sglang:",),
    renames=(("sglang_", "sglang:"),),
    signals={**_SCHEDULER, **_PREFIX_CACHE, **_REQUESTS, **_MOVEMENT},
    eras=_ERAS,
    rank_label="dp_rank",
    default_port=30000,
    repeats=("tp_rank", "pp_rank", "moe_ep_rank"),
    parts=("priority",),
    role_label="engine_type",
)
