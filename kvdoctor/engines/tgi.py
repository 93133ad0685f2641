"""Text Generation Inference up to 3.3.7, its last release: counters without `_total`, a KV budget that is reserved."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, labelled, sampled

_FAILED = "tgi_request_failure"
_STEP = "tgi_batch_inference_duration"

# Not exported: time to first token, prefix hits, blocks in use, preemptions. `mean_time_per_token` holds
# the prefill too, so it is no time per output token.
ENGINE = Engine(
    name="tgi",
    prefixes=("tgi_",),
    signals={
        m.RUNNING: any_of("tgi_batch_current_size"),
        m.WAITING: any_of("tgi_queue_size"),
        m.KV_CACHE_USAGE: ((Select("tgi_batch_current_max_tokens", over="tgi_batch_max_total_tokens"),),),
        m.POOL_TOKENS: any_of("tgi_batch_max_total_tokens"),
        m.FINISHED: ((Select("tgi_request_success"), Select(_FAILED)),),
        m.FAILED: any_of(_FAILED),
        m.ADMISSION_REJECTIONS: ((labelled(_FAILED, err="overloaded"),),),
        m.E2E: any_of("tgi_request_duration"),
        m.QUEUE: any_of("tgi_request_queue_duration"),
        m.PREFILL: ((labelled(_STEP, method="prefill"),),),
        m.STEP_SECONDS: ((labelled(_STEP, method="decode"),),),
        m.STEPS: any_of("tgi_batch_inference_count"),
        m.PROMPT_TOKENS: ((sampled("tgi_request_input_length", "sum"),),),
        m.PROMPT_LENGTH: any_of("tgi_request_input_length"),
        m.OUTPUT_LENGTH: any_of("tgi_request_generated_tokens"),
        m.GENERATED: ((sampled("tgi_request_generated_tokens", "sum"),),),
    },
    eras=(Era("tgi_queue_size", until="3.3.7"),),
    default_port=3000,
    at_finish=True,
    usage_means="tokens reserved for prompts and max_new_tokens, used or not",
)
