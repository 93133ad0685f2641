"""Builds recordings of a vLLM from plain numbers: what it served in a window, told with its names on the wire."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvdoctor.case import Case, build_case
from kvdoctor.engines.vllm import ENGINE
from kvdoctor.judged import judge_source, objective
from kvdoctor.machine import Machine
from kvdoctor.model import Finding
from kvdoctor.recording import Column, Recording, Source
from kvdoctor.timeline import Timeline

WALL = 1_800_000_000.0
MODEL = "tiny"

# The bucket bounds of vLLM 0.32.
TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
               40.0, 80.0, 160.0, 640.0, 2560.0)  # fmt: skip
ITL_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
              40.0, 80.0)  # fmt: skip
PHASE_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
                480.0, 960.0, 1920.0, 7680.0)  # fmt: skip
LENGTH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
STEP_BOUNDS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)

Values = float | Sequence[float]
Labels = Mapping[str, str]


@dataclass
class Page:
    """One endpoint, read `readings` times over `seconds`."""

    seconds: float = 30.0
    readings: int = 31
    name: str = "http://127.0.0.1:8000"
    labels: dict[str, str] = field(default_factory=lambda: {"model_name": MODEL, "engine": "0"})
    columns: list[Column] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def rising(self, rise: float, before: float = 0.0) -> list[float]:
        """A counter that stands at `before` at first and rises evenly; one reading shows all of it."""
        if self.readings == 1:
            return [before + rise]
        return [before + rise * i / (self.readings - 1) for i in range(self.readings)]

    def series(self, name: str, values: Values, kind: str = "gauge", **labels: str) -> Page:
        """Add a series as it was read: a number, or a value a reading (NaN where it is gone)."""
        if isinstance(values, int | float):
            values = [float(values)] * self.readings
        assert len(values) == self.readings, f"{name}: {len(values)} values for {self.readings} readings"
        pairs = tuple(sorted({**self.labels, **labels}.items()))
        column = Column(name, pairs, kind)
        before = math.nan
        for reading, value in enumerate(values):
            if value != before and not (math.isnan(value) and math.isnan(before)):
                column.index.append(reading)
                column.value.append(value)
            before = value
        self.columns.append(column)
        return self

    def counter(self, name: str, rise: float, before: float = 0.0, **labels: str) -> Page:
        """Add a counter that rises evenly over the window."""
        return self.series(name, self.rising(rise, before), "counter", **labels)

    def histogram(
        self,
        name: str,
        buckets: Mapping[float, float],
        total: float,
        *,
        bounds: Sequence[float] = (),
        before: float = 1.0,
        **labels: str,
    ) -> Page:
        """Add a histogram: `buckets` maps upper bounds to their own counts in the window.

        `before` is what the sums stood at when the window began, as a multiple of what they gain in it.
        """
        edges = sorted({*bounds, *buckets} - {math.inf})
        seen = 0.0
        for edge in [*edges, math.inf]:
            seen += buckets.get(edge, 0.0)
            le = "+Inf" if math.isinf(edge) else str(edge)
            values = self.rising(seen, before * seen)
            self.series(f"{name}_bucket", values, "histogram", le=le, **labels)
        self.series(f"{name}_sum", self.rising(total, before * total), "histogram", **labels)
        return self.series(f"{name}_count", self.rising(seen, before * seen), "histogram", **labels)

    def source(self) -> Source:
        """What reading this endpoint gave."""
        source = Source(self.name, "prometheus", wall=WALL, columns=self.columns, texts=self.texts)
        step = self.seconds / max(1, self.readings - 1)
        source.at = array("d", (i * step for i in range(self.readings)))
        source.took = array("d", [0.01] * self.readings)
        source.size = array("Q", [1000] * self.readings)
        return source


def bucket_of(value: float, bounds: Sequence[float]) -> float:
    """The upper bound of the bucket that holds a value."""
    return next((bound for bound in bounds if value <= bound), math.inf)


def write_rank(
    page: Page,
    *,
    first_tokens: float = 200,
    outputs: float = 20,
    ttft_mean: float = 0.1,
    ttft_buckets: Mapping[float, float] | None = None,
    queue_mean: float = 0.0,
    prefill_mean: float = 0.05,
    e2e_mean: float = 0.5,
    finished: float | None = None,
    finished_before: float = 100,
    itl_mean: float = 0.008,
    itl_buckets: Mapping[float, float] | None = None,
    itl_sum: float | None = None,
    running: Values = 2,
    waiting: Values = 0,
    deferred: Values = 0,
    usage: Values | None = 0.3,
    preemptions: float = 0,
    preempted_before: float = 0,
    prompt: float = 500,
    computed: float | None = None,
    computed_before: float = 1e7,
    hits: float | None = None,
    queries: float | None = None,
    hits_before: float = 0,
    queries_before: float = 0,
    external_hits: float = 0,
    external: float = 0,
    generated_before: float = 1e6,
    computed_buckets: Mapping[float, float] | None = None,
    step_tokens: float | None = 8,
    step_buckets: Mapping[float, float] | None = None,
    pool_tokens: float | None = 100_000,
    block_size: float = 16,
    caching: str | None = "True",
    cache_dtype: str = "auto",
    before: float = 1.0,
    created: float = WALL - 3600,
) -> None:
    """Write one rank's families. Without a word on hits, nine prompt tokens in ten hit."""
    prompts = first_tokens * prompt
    queried = prompts if queries is None else queries
    hit = 0.9 * queried if hits is None else hits
    computes = max(0.0, prompts - hit - external) if computed is None else computed
    done = first_tokens if finished is None else finished
    gaps = first_tokens * (outputs - 1)

    page.series("vllm:num_requests_running", running)
    page.series("vllm:num_requests_waiting", waiting)
    page.series("vllm:num_requests_waiting_by_reason", deferred, reason="deferred")
    if usage is not None:
        page.series("vllm:kv_cache_usage_perc", usage)
    page.counter("vllm:num_preemptions_total", preemptions, preempted_before)
    page.series("vllm:num_preemptions_created", created)
    page.counter("vllm:prefix_cache_queries_total", queried, queries_before)
    page.counter("vllm:prefix_cache_hits_total", hit, hits_before)
    page.counter("vllm:external_prefix_cache_hits_total", external_hits)
    page.counter("vllm:prompt_tokens_total", prompts, computed_before)
    page.counter("vllm:prompt_tokens_by_source_total", computes, computed_before, source="local_compute")
    page.counter("vllm:prompt_tokens_by_source_total", external, source="external_kv_transfer")
    page.counter("vllm:generation_tokens_total", first_tokens * outputs, generated_before)
    page.counter("vllm:request_success_total", done, finished_before, finished_reason="length")
    page.counter("vllm:request_success_total", 0, finished_reason="abort")

    buckets = ttft_buckets or {bucket_of(ttft_mean, TTFT_BOUNDS): first_tokens}
    page.histogram(
        "vllm:time_to_first_token_seconds",
        buckets,
        ttft_mean * sum(buckets.values()),
        bounds=TTFT_BOUNDS,
        before=before,
    )
    buckets = itl_buckets or {bucket_of(itl_mean, ITL_BOUNDS): gaps}
    total = itl_mean * sum(buckets.values()) if itl_sum is None else itl_sum
    page.histogram("vllm:inter_token_latency_seconds", buckets, total, bounds=ITL_BOUNDS, before=before)
    for name, mean in (("queue", queue_mean), ("prefill", prefill_mean), ("e2e", e2e_mean)):
        family = "vllm:e2e_request_latency_seconds" if name == "e2e" else f"vllm:request_{name}_time_seconds"
        page.histogram(
            family, {bucket_of(mean, PHASE_BOUNDS): done}, mean * done, bounds=PHASE_BOUNDS, before=before
        )
    each = computes / first_tokens if first_tokens else 0.0
    buckets = computed_buckets or {bucket_of(each, LENGTH_BOUNDS): done}
    page.histogram(
        "vllm:request_prefill_kv_computed_tokens",
        buckets,
        each * done,
        bounds=LENGTH_BOUNDS,
        before=before,
    )
    if step_tokens is not None:
        buckets = step_buckets or {bucket_of(step_tokens, STEP_BOUNDS): 1000}
        page.histogram(
            "vllm:iteration_tokens_total",
            buckets,
            step_tokens * sum(buckets.values()),
            bounds=STEP_BOUNDS,
            before=before,
        )
    config = {"block_size": f"{block_size:.0f}", "cache_dtype": cache_dtype, "sliding_window": "None"}
    if pool_tokens is not None:
        config["num_gpu_blocks"] = f"{pool_tokens // block_size:.0f}"
        config["kv_cache_size_tokens"] = f"{pool_tokens:.0f}"
    if caching is not None:
        config["enable_prefix_caching"] = caching
    page.series("vllm:cache_config_info", 1.0, **config)


def process(page: Page, start: Values = WALL - 3600) -> Page:
    """Add what the Python client tells of its process."""
    engine = page.labels
    page.labels = {}
    page.series("process_start_time_seconds", start)
    page.labels = engine
    return page


def endpoint(
    *, seconds: float = 30.0, readings: int = 31, ranks: Sequence[Mapping[str, object]] = ({},), **numbers
):
    """A page of one vLLM; `numbers` go to `write_rank`, each of `ranks` overrides some of them for one rank."""
    page = Page(seconds, readings)
    for rank, own in enumerate(ranks):
        page.labels["engine"] = str(rank)
        write_rank(page, **{**numbers, **own})
    page.labels["engine"] = "0"
    return process(page)


def recording(*pages: Page, facts: Mapping[str, str] | None = None) -> Recording:
    """One recording of several endpoints."""
    return Recording(1, "0.1.0", WALL, [page.source() for page in pages], facts=dict(facts or {}))


def load(*, facts: Mapping[str, str] | None = None, **numbers) -> Recording:
    """A recording of one vLLM under the load that the numbers describe; see `write_rank`."""
    return recording(endpoint(**numbers), facts=facts)


def timeline(page: Page, first: int = 0, last: int | None = None) -> Timeline:
    """The signals of a page between two of its readings."""
    return Timeline(page.source(), ENGINE, first, page.readings - 1 if last is None else last)


def case_of(page: Page, *, machine: Machine | None = None, facts: Mapping[str, str] | None = None) -> Case:
    """The case of a page's newest stretch; `machine` replaces what the facts tell of card and model."""
    facts = dict(facts or {})
    if machine is not None:
        return build_case(timeline(page), machine, objective(facts), facts)
    judged = judge_source(page.source(), ENGINE, facts)
    assert judged is not None
    return judged.case


def case(*, machine: Machine | None = None, facts: Mapping[str, str] | None = None, **numbers) -> Case:
    """The case of one vLLM under a load."""
    return case_of(endpoint(**numbers), machine=machine, facts=facts)


def finding(findings: Sequence[Finding], subclass: str | None) -> Finding:
    """The one finding of a subclass."""
    (found,) = (f for f in findings if f.subclass == subclass)
    return found
