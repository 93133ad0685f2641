"""A page of vLLM as other releases, other exporters and Ray spell it."""

from __future__ import annotations

from loads import Page

OLD_NAMES = {
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
    "vllm:prefix_cache_": "vllm:gpu_prefix_cache_",
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
}
SINCE_0_16 = (
    "vllm:prompt_tokens_by_source",
    "vllm:num_requests_waiting_by_reason",
    "vllm:external_",
    "vllm:request_prefill_kv_computed_tokens",
)


def old(page: Page) -> Page:
    """Tell a page with the names of 0.8.5, and without the families that came later."""
    page.columns = [c for c in page.columns if not c.name.startswith(SINCE_0_16)]
    for column in page.columns:
        for new, name in OLD_NAMES.items():
            column.name = column.name.replace(new, name)
    return page


def bare(page: Page) -> Page:
    """Tell counters without `_total`, as exporters that are not Python's do."""
    for column in page.columns:
        if column.type == "counter":
            column.name = column.name.removesuffix("_total")
    return page


def ray(page: Page) -> Page:
    """Tell a page as Ray's agent does."""
    for column in page.columns:
        column.name = column.name.replace("vllm:", "ray_vllm_")
    return page


def without_engine(page: Page) -> Page:
    """Tell a page without the label of the rank, as V0 did."""
    for column in page.columns:
        column.labels = tuple(pair for pair in column.labels if pair[0] != "engine")
    return page
