"""NVIDIA Dynamo: its front end and its workers' shell, judged where no engine's own families stand beside them."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, labelled, sampled

_FRONT = "dynamo_frontend_"
_PART = "dynamo_component_"
_BLOCK = f"{_FRONT}model_kv_cache_block_size"

# `queued_requests` lasts until the first token, prefill included: it is no queue.
FRONTEND = Engine(
    name="dynamo",
    prefixes=(_FRONT,),
    signals={
        m.RUNNING: any_of(f"{_FRONT}inflight_requests"),
        m.WAITING: any_of(f"{_FRONT}router_queue_pending_requests"),
        m.POOL_TOKENS: ((Select(f"{_FRONT}model_total_kv_blocks", times=_BLOCK),),),
        m.BLOCK_SIZE: any_of(_BLOCK),
        m.FINISHED: any_of(f"{_FRONT}requests"),
        m.ADMISSION_REJECTIONS: any_of(f"{_FRONT}model_rejection"),
        m.TTFT: any_of(f"{_FRONT}time_to_first_token_seconds"),
        m.ITL: any_of(f"{_FRONT}inter_token_latency_seconds"),
        m.E2E: any_of(f"{_FRONT}request_duration_seconds"),
        m.PROMPT_TOKENS: ((sampled(f"{_FRONT}input_sequence_tokens", "sum"),),),
        m.PROMPT_LOCAL_HIT: (
            (sampled(f"{_FRONT}cached_tokens", "sum"),),
            (sampled(f"{_FRONT}cached_sequence_length", "sum"),),
        ),
        m.PROMPT_LENGTH: any_of(f"{_FRONT}input_sequence_tokens"),
        m.OUTPUT_LENGTH: any_of(f"{_FRONT}output_sequence_tokens"),
        m.GENERATED: (
            *any_of(f"{_FRONT}output_tokens"),
            (sampled(f"{_FRONT}output_sequence_tokens", "sum"),),
        ),
    },
    eras=(
        Era(f"{_FRONT}cached_sequence_length", until="0.8"),
        Era(f"{_FRONT}model_migration_limit", since="0.8"),
        Era(f"{_FRONT}cached_tokens", since="0.9"),
    ),
    default_port=8000,
    role="frontend",
    model_label="model",
    folds_case=True,
)

WORKER = Engine(
    name="dynamo",
    prefixes=(_PART,),
    signals={
        m.RUNNING: ((labelled(f"{_PART}inflight_requests", dynamo_endpoint="generate"),),),
        m.FINISHED: ((labelled(f"{_PART}requests", dynamo_endpoint="generate"),),),
        m.E2E: ((labelled(f"{_PART}request_duration_seconds", dynamo_endpoint="generate"),),),
        m.KV_CACHE_USAGE: any_of(
            f"{_PART}gpu_cache_usage_percent", f"{_PART}kvstats_gpu_cache_usage_percent"
        ),
        m.HITS_RATE_GAUGE: any_of(f"{_PART}kv_cache_hit_rate", f"{_PART}kvstats_gpu_prefix_cache_hit_rate"),
    },
    eras=(
        Era(f"{_PART}kvstats_gpu_cache_usage_percent", until="0.8"),
        Era(f"{_PART}gpu_cache_usage_percent", since="0.9"),
    ),
    rank_label="dp_rank",
    model_label="model",
    folds_case=True,
    at_finish=True,
)

# The letters change their meaning: h2d is host to device when onboarding, host to disk when offloading.
KVBM = Engine(
    name="kvbm",
    prefixes=("kvbm_",),
    signals={
        m.LOADS: ((Select("kvbm_onboard_blocks_h2d"), Select("kvbm_onboard_blocks_d2d")),),
        m.EXTERNAL_HITS: any_of("kvbm_matched_tokens"),
    },
    layer=True,
)
