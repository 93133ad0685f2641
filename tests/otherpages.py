"""Pages of engines other than vLLM under one load, told in the few words that each of them has for it."""

from __future__ import annotations

from dataclasses import dataclass

from loads import PHASE_BOUNDS, TTFT_BOUNDS, Page, Values, bucket_of
from readings import blank


@dataclass(frozen=True)
class Served:
    """What went through an engine in 30 s."""

    requests: float = 240
    prompt: float = 1000
    computed: float = 200
    """Tokens of a prompt."""
    outputs: float = 100
    ttft: float = 0.03
    queue: float = 0.005
    prefill: float = 0.02
    """Seconds from scheduled to first token; of TGI's batches, in the mean."""
    gap: float = 0.01
    e2e: float = 1.0
    running: Values = 8
    waiting: Values = 0
    usage: Values = 0.3
    pool: float = 400_000


def _times(page: Page, names: dict[str, float], number: float) -> None:
    for name, mean in names.items():
        bounds = TTFT_BOUNDS if "first_token" in name else PHASE_BOUNDS
        page.histogram(name, {bucket_of(mean, bounds): number}, mean * number, bounds=bounds)


def trt(served: Served) -> Page:
    """TensorRT-LLM: everything is counted when a request ends."""
    s, page = served, blank(model_name="m", engine_type="trtllm")
    page.series("trtllm_num_requests_running", s.running)
    page.series("trtllm_num_requests_waiting", s.waiting)
    page.series("trtllm_kv_cache_utilization", s.usage)
    page.series("trtllm_kv_cache_max_blocks", s.pool / 16).series("trtllm_kv_cache_tokens_per_block", 16)
    page.counter("trtllm_prompt_tokens_total", s.requests * s.prompt, 1e6)
    page.counter("trtllm_prompt_cached_tokens_total", s.requests * (s.prompt - s.computed), 1e5)
    page.counter("trtllm_generation_tokens_total", s.requests * s.outputs, 1e5)
    page.counter("trtllm_request_success_total", s.requests, 1000, finished_reason="length")
    names = {
        "trtllm_time_to_first_token_seconds": s.ttft,
        "trtllm_time_per_output_token_seconds": s.gap,
        "trtllm_e2e_request_latency_seconds": s.e2e,
        "trtllm_request_queue_time_seconds": s.queue,
        "trtllm_request_prefill_time_seconds": s.prefill,
        "trtllm_request_decode_time_seconds": s.gap * (s.outputs - 1),
    }
    _times(page, names, s.requests)
    return page


def sglang(served: Served, *, hits: bool = True) -> Page:
    """SGLang up to 0.5.2: gaps and first tokens as they come, no clock of queue or prefill."""
    s, page = served, blank(model_name="m")
    page.series("sglang:num_running_reqs", s.running).series("sglang:num_queue_reqs", s.waiting)
    page.series("sglang:token_usage", s.usage).series("sglang:max_total_num_tokens", s.pool)
    page.counter("sglang:prompt_tokens_total", s.requests * s.prompt, 1e6)
    if hits:
        page.counter("sglang:cached_tokens_total", s.requests * (s.prompt - s.computed), 1e5)
    page.counter("sglang:num_requests_total", s.requests, 1000)
    names = {"sglang:time_to_first_token_seconds": s.ttft, "sglang:e2e_request_latency_seconds": s.e2e}
    _times(page, names, s.requests)
    gaps = s.requests * (s.outputs - 1)
    page.histogram("sglang:inter_token_latency_seconds", {s.gap * 1.2: gaps}, s.gap * gaps)
    return page


def tgi(served: Served) -> Page:
    """TGI: batches of prefill and of decode, each with its clock; tokens when a request ends."""
    s, page = served, blank()
    page.series("tgi_batch_current_size", s.running).series("tgi_queue_size", s.waiting)
    tokens = [s.pool * s.usage] * page.readings if isinstance(s.usage, int | float) else s.usage
    page.series("tgi_batch_current_max_tokens", tokens).series("tgi_batch_max_total_tokens", s.pool)
    page.counter("tgi_request_success", s.requests, 1000)
    page.counter("tgi_batch_inference_count", s.requests, 1000, method="prefill")
    page.counter("tgi_batch_inference_count", s.requests * s.outputs / 8, 10_000, method="decode")
    name = "tgi_batch_inference_duration"
    page.histogram(name, {2 * s.prefill: s.requests}, s.prefill * s.requests, method="prefill")
    steps = s.requests * s.outputs / 8
    page.histogram(name, {1.2 * s.gap: steps}, s.gap * steps, method="decode")
    _times(page, {"tgi_request_duration": s.e2e, "tgi_request_queue_duration": s.queue}, s.requests)
    for name, mean in (("tgi_request_input_length", s.prompt), ("tgi_request_generated_tokens", s.outputs)):
        page.histogram(name, {2 * mean: s.requests}, mean * s.requests)
    return page
