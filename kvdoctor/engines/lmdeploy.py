"""LMDeploy, 0.9.2 to 0.18: names after vLLM's, gauges of the last ten seconds, usage with cached blocks in it."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, any_of, sampled

_PROMPTS, _CACHED = "lmdeploy:request_prompt_tokens", "lmdeploy:request_cached_tokens"

# `iteration_tokens_total` is observed for each request's output, not for each step, and is no step.
ENGINE = Engine(
    name="lmdeploy",
    prefixes=("lmdeploy:",),
    signals={
        m.KV_ALLOCATED: any_of("lmdeploy:gpu_cache_usage_perc"),
        m.RUNNING: any_of("lmdeploy:num_requests_running"),
        m.WAITING: any_of("lmdeploy:num_requests_waiting", "lmdeploy:num_api_requests_waiting"),
        m.HITS_RATE_GAUGE: any_of("lmdeploy:prefix_cache_hit_rate"),
        # Both at the end of a request, so that they are of the same ones.
        m.PREFIX_QUERIES: ((sampled(_PROMPTS, "sum"),),),
        m.PREFIX_HITS: ((sampled(_CACHED, "sum"),), *any_of("lmdeploy:cached_tokens")),
        m.PROMPT_TOKENS: any_of("lmdeploy:prompt_tokens"),
        m.PROMPT_COMPUTED: ((sampled(_PROMPTS, "sum"), sampled(_CACHED, "sum", -1.0)),),
        m.GENERATED: any_of("lmdeploy:generation_tokens"),
        m.FINISHED: any_of("lmdeploy:request_success", "lmdeploy:num_requests_succeeded"),
        m.FAILED: any_of("lmdeploy:num_requests_failed"),
        m.TTFT: any_of("lmdeploy:time_to_first_token_seconds"),
        m.ITL: any_of("lmdeploy:iter_token_latency", "lmdeploy:time_per_output_token_seconds"),
        m.E2E: any_of("lmdeploy:e2e_request_latency_seconds"),
        m.QUEUE: any_of("lmdeploy:request_queue_time_seconds"),
        m.PREFILL: any_of("lmdeploy:request_prefill_time_seconds"),
        m.DECODE: any_of("lmdeploy:request_decode_time_seconds"),
        m.PROMPT_LENGTH: any_of(_PROMPTS),
        m.OUTPUT_LENGTH: any_of("lmdeploy:request_generation_tokens"),
        m.SPEC_DRAFTS: any_of("lmdeploy:spec_decode_num_drafts"),
        m.SPEC_DRAFT_TOKENS: any_of("lmdeploy:spec_decode_num_draft_tokens"),
        m.SPEC_ACCEPTED: any_of("lmdeploy:spec_decode_num_accepted_tokens"),
        m.PROCESS_START: any_of("process_start_time_seconds"),
        m.PROCESS_CPU: any_of("process_cpu_seconds"),
    },
    eras=(
        Era("lmdeploy:num_requests_running", since="0.9.2"),
        Era("lmdeploy:num_api_requests_routed", since="0.13.0"),
        Era("lmdeploy:prefix_cache_hit_rate", since="0.14.0"),
    ),
    rank_label="engine",
    default_port=23333,
    gauge_period=10.0,
    usage_means="blocks allocated, cached prefixes included",
)
