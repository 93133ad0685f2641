"""vLLM, 0.5 (V0) to 0.33: its metric names through the years, under its own prefix or under Ray's."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, labelled

_BY_SOURCE = "vllm:prompt_tokens_by_source"
_CACHED = "vllm:prompt_tokens_cached_by_source"
_REASON = "vllm:num_requests_waiting_by_reason"
_STAGE = "vllm:num_requests_kv_fetch_by_stage"
_DONE = "vllm:request_success"
_STORE = "vllm:mooncake_store_operation"
_OLD_BYTES, _OLD_TIME = "vllm:kv_offload_total_bytes", "vllm:kv_offload_total_time"

_SCHEDULER = {
    m.KV_CACHE_USAGE: any_of("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    m.CACHE_CONFIG: any_of("vllm:cache_config_info"),
    m.RUNNING: any_of("vllm:num_requests_running"),
    m.WAITING: any_of("vllm:num_requests_waiting"),
    m.WAITING_CAPACITY: ((labelled(_REASON, reason="capacity"),),),
    m.WAITING_DEFERRED: ((labelled(_REASON, reason="deferred"),),),
    m.SWAPPED: any_of("vllm:num_requests_swapped"),
    m.KV_FETCH_WAITING: ((labelled(_STAGE, stage="waiting_to_start"),),),
    m.KV_FETCH_IN_PROGRESS: ((labelled(_STAGE, stage="in_progress"),),),
    m.KV_FETCH_COMPLETED: ((labelled(_STAGE, stage="completed_waiting"),),),
    m.PREEMPTIONS: any_of("vllm:num_preemptions"),
    m.ADMISSION_REJECTIONS: any_of("vllm:admission_rejections"),
    m.SLEEP_STATE: (
        (
            labelled("vllm:engine_sleep_state", sleep_state="weights_offloaded"),
            labelled("vllm:engine_sleep_state", sleep_state="discard_all"),
        ),
    ),
}

_PREFIX_CACHE = {
    m.PREFIX_QUERIES: any_of("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    m.PREFIX_HITS: any_of("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    m.HITS_RATE_GAUGE: any_of("vllm:gpu_prefix_cache_hit_rate"),
    m.EXTERNAL_QUERIES: any_of("vllm:external_prefix_cache_queries"),
    m.EXTERNAL_HITS: any_of("vllm:external_prefix_cache_hits"),
    m.PROMPT_TOKENS: any_of("vllm:prompt_tokens"),
    m.PROMPT_COMPUTED: (
        (labelled(_BY_SOURCE, source="local_compute"),),
        (Select("vllm:request_prefill_kv_computed_tokens", sample="sum"),),
    ),
    m.PROMPT_LOCAL_HIT: ((labelled(_BY_SOURCE, source="local_cache_hit"),),),
    m.PROMPT_EXTERNAL: ((labelled(_BY_SOURCE, source="external_kv_transfer"),),),
    m.CACHED_DEVICE: ((labelled(_CACHED, source="device"),),),
    m.CACHED_HOST: ((labelled(_CACHED, source="host"),),),
    m.CACHED_DISK: ((labelled(_CACHED, source="disk"),),),
    m.CACHED_P2P: ((labelled(_CACHED, source="p2p"),),),
    m.CACHED_EXTERNAL: ((labelled(_CACHED, source="external_unspecified"),),),
    m.MM_QUERIES: any_of("vllm:mm_cache_queries"),
    m.GENERATED: any_of("vllm:generation_tokens"),
}

_REQUESTS = {
    m.FINISHED: any_of(_DONE),
    m.FAILED: ((labelled(_DONE, finished_reason="abort"), labelled(_DONE, finished_reason="error")),),
    m.TTFT: any_of("vllm:time_to_first_token_seconds"),
    m.ITL: any_of("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    m.TPOT: any_of("vllm:request_time_per_output_token_seconds"),
    m.E2E: any_of("vllm:e2e_request_latency_seconds"),
    m.QUEUE: any_of("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),
    m.PREFILL: any_of("vllm:request_prefill_time_seconds"),
    m.DECODE: any_of("vllm:request_decode_time_seconds"),
    m.PROMPT_LENGTH: any_of("vllm:request_prompt_tokens"),
    m.OUTPUT_LENGTH: any_of("vllm:request_generation_tokens"),
    m.REQUEST_COMPUTED: any_of("vllm:request_prefill_kv_computed_tokens"),
    m.REQUEST_PREEMPTIONS: any_of("vllm:request_num_preemptions"),
    m.ITERATION_TOKENS: any_of("vllm:iteration_tokens_total"),
    m.ESTIMATED_FLOPS: any_of("vllm:estimated_flops_per_gpu"),
    m.ESTIMATED_READ: any_of("vllm:estimated_read_bytes_per_gpu"),
    m.ESTIMATED_WRITE: any_of("vllm:estimated_write_bytes_per_gpu"),
    m.SPEC_DRAFTS: any_of("vllm:spec_decode_num_drafts"),
    m.SPEC_DRAFT_TOKENS: any_of("vllm:spec_decode_num_draft_tokens"),
    m.SPEC_ACCEPTED: any_of("vllm:spec_decode_num_accepted_tokens"),
}

_MOVEMENT = {
    m.TRANSFER_BYTES: ((Select("vllm:nixl_bytes_transferred", sample="sum"),),),
    m.TRANSFER_SECONDS: ((Select("vllm:nixl_xfer_time_seconds", sample="sum"),),),
    m.TRANSFERS: ((Select("vllm:nixl_xfer_time_seconds", sample="count"),),),
    m.TRANSFER_POST_SECONDS: ((Select("vllm:nixl_post_time_seconds", sample="sum"),),),
    m.TRANSFER_DESCRIPTORS: ((Select("vllm:nixl_num_descriptors", sample="sum"),),),
    m.TRANSFER_FAILURES: (
        (
            Select("vllm:nixl_num_failed_transfers"),
            Select("vllm:nixl_num_failed_notifications"),
            Select("vllm:nixl_num_kv_expired_reqs"),
            Select(f"{_STORE}_failed_keys"),
        ),
    ),
    m.LOAD_BYTES: (
        (Select("vllm:kv_offload_load_bytes"),),
        (labelled(_OLD_BYTES, transfer_type="CPU_to_GPU"),),
        (Select("vllm:hisparse_host_to_device_bytes"),),
    ),
    m.LOAD_SECONDS: (
        (Select("vllm:kv_offload_load_time"),),
        (labelled(_OLD_TIME, transfer_type="CPU_to_GPU"),),
        (Select("vllm:hf3fs_load_duration_seconds", sample="sum"),),
    ),
    m.LOADS: (
        (Select("vllm:kv_offload_load_size", sample="count"),),
        (Select("vllm:kv_offload_size", (("transfer_type", "CPU_to_GPU"),), "count"),),
        (Select("vllm:hf3fs_load_duration_seconds", sample="count"),),
    ),
    m.STORE_BYTES: (
        (Select("vllm:kv_offload_store_bytes"),),
        (labelled(_OLD_BYTES, transfer_type="GPU_to_CPU"),),
    ),
    m.STORE_SECONDS: (
        (Select("vllm:kv_offload_store_time"),),
        (labelled(_OLD_TIME, transfer_type="GPU_to_CPU"),),
        (Select("vllm:hf3fs_save_duration_seconds", sample="sum"),),
    ),
    m.TIER_READ_BYTES: (
        (Select("vllm:kv_offload_tiering_read_bytes"),),
        (labelled(f"{_STORE}_bytes", operation="load_get"),),
    ),
    m.TIER_READ_SECONDS: (
        (Select("vllm:kv_offload_tiering_read_time"),),
        (Select(f"{_STORE}_time_seconds", (("operation", "load_get"),), "sum"),),
    ),
    m.TIER_QUERIES: (
        (Select("vllm:kv_offload_tiering_chunk_queries"),),
        (labelled(f"{_STORE}_keys", operation="lookup_exists"),),
    ),
    m.TIER_HITS: (
        (Select("vllm:kv_offload_tiering_chunk_hits"),),
        (labelled(f"{_STORE}_keys", operation="load_get"),),
    ),
    m.TIER_FAILURES: (
        (
            Select("vllm:kv_offload_allocation_failure"),
            Select("vllm:kv_offload_tiering_promotion_allocation_failures"),
            Select("vllm:kv_offload_tiering_promotion_job_failures"),
            Select("vllm:kv_offload_tiering_backpressure_blocks_dropped"),
        ),
    ),
    m.TIER_USAGE: any_of("vllm:kv_offload_cpu_cache_usage_perc", "vllm:hisparse_host_cache_usage_perc"),
    m.LOOKUP_BLOCKING: any_of("vllm:kv_offload_lookup_sync_delay_seconds"),
    m.LOOKUP: any_of(
        "vllm:kv_offload_lookup_sync_delay_seconds",
        "vllm:kv_offload_lookup_async_delay_seconds",
        "vllm:lmcache_mp_lookup_duration_seconds",
    ),
    m.REUSE_GAP: any_of("vllm:kv_block_reuse_gap_seconds"),
    m.IDLE_BEFORE_EVICT: any_of("vllm:kv_block_idle_before_evict_seconds"),
    m.BLOCK_LIFETIME: any_of("vllm:kv_block_lifetime_seconds"),
    m.PROCESS_START: any_of("process_start_time_seconds"),
    m.PROCESS_CPU: any_of("process_cpu_seconds"),
}

# First and last sampled release of each name (0.5 to 0.32.0 were sampled).
_ERAS = (
    Era("vllm:num_requests_swapped", until="0.10"),
    Era("vllm:cpu_cache_usage_perc", until="0.10"),
    Era("vllm:gpu_prefix_cache_hit_rate", until="0.8.5"),
    Era("vllm:gpu_cache_usage_perc", until="0.11.2"),
    Era("vllm:gpu_prefix_cache_queries", until="0.11.2"),
    Era("vllm:time_per_output_token_seconds", until="0.14.1"),
    Era("vllm:kv_cache_usage_perc", since="0.9.2"),
    Era("vllm:prefix_cache_queries", since="0.9.2"),
    Era("vllm:inter_token_latency_seconds", since="0.10.2"),
    Era("vllm:request_time_per_output_token_seconds", since="0.11.0"),
    Era("vllm:external_prefix_cache_queries", since="0.11.1"),
    Era("vllm:engine_sleep_state", since="0.11.1"),
    Era("vllm:request_prefill_kv_computed_tokens", since="0.13.0"),
    Era("vllm:prompt_tokens_by_source", since="0.16.0"),
    Era("vllm:prompt_tokens_recomputed", since="0.16.0", until="0.19.1"),
    Era("vllm:estimated_flops_per_gpu", since="0.17.0"),
    Era("vllm:num_requests_waiting_by_reason", since="0.20.0"),
    Era("vllm:request_num_preemptions", since="0.30.0"),
    Era("vllm:prompt_tokens_cached_by_source", since="0.32.0"),
    Era("vllm:admission_rejections", since="0.32.0"),
)

ENGINE = Engine(
    name="vllm",
    prefixes=("vllm:",),
    renames=(("ray_vllm_", "vllm:"),),
    signals={**_SCHEDULER, **_PREFIX_CACHE, **_REQUESTS, **_MOVEMENT},
    eras=_ERAS,
    rank_label="engine",
    default_port=8000,
)
