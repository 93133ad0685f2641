"""Pages of a vLLM that never ran: as many series as a real one, of which half change every second."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

SERIES = 600
"""About what one vLLM 0.32 with a KV connector answers (558 in a captured page), and some more."""
RANKS = ("0", "1")
BUCKETS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
)
# family, median of what is observed, observations a second
HISTOGRAMS = (
    ("vllm:time_to_first_token_seconds", 0.2, 4),
    ("vllm:inter_token_latency_seconds", 0.02, 400),
    ("vllm:e2e_request_latency_seconds", 6.0, 4),
    ("vllm:request_queue_time_seconds", 0.05, 4),
    ("vllm:request_prefill_time_seconds", 0.15, 4),
    ("vllm:request_decode_time_seconds", 5.5, 4),
    ("vllm:request_inference_time_seconds", 5.7, 4),
    ("vllm:iteration_tokens_total", 0.3, 40),
    ("vllm:request_prefill_kv_computed_tokens", 0.4, 4),
    ("vllm:request_time_per_output_token_seconds", 0.02, 4),
    ("vllm:nixl_xfer_time_seconds", 0.01, 8),
)
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:num_preemptions_total",
    "vllm:request_success_total",
)
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


@dataclass
class _Histogram:
    name: str
    median: float
    rate: int
    rank: str
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def observe(self, chance: random.Random) -> None:
        for _ in range(self.rate):
            value = self.median * chance.lognormvariate(0, 0.8)
            self.total += value
            self.counts[sum(value > bound for bound in BUCKETS)] += 1

    def lines(self) -> Iterator[str]:
        labels = f'engine="{self.rank}",model_name="meta-llama/Llama-3.1-8B-Instruct"'
        reached = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            reached += count
            yield f'{self.name}_bucket{{{labels},le="{bound}"}} {reached}.0'
        yield f"{self.name}_sum{{{labels}}} {self.total!r}"
        yield f"{self.name}_count{{{labels}}} {reached}.0"


class Engine:
    """Turns out one page a second of its life."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._histograms = [_Histogram(*family, rank) for family in HISTOGRAMS for rank in RANKS]
        self._counters = {(name, rank): 0 for name in COUNTERS for rank in RANKS}

    def page(self) -> bytes:
        """Return the page of the next second."""
        lines: list[str] = []
        for histogram in self._histograms:
            histogram.observe(self._chance)
            if histogram.rank == RANKS[0]:
                lines.append(f"# TYPE {histogram.name} histogram")
            lines.extend(histogram.lines())
        for name, rank in self._counters:
            self._counters[name, rank] += self._chance.randrange(2000)
            lines.append(f'{name}{{engine="{rank}"}} {self._counters[name, rank]}.0')
        lines.extend(
            f'{name}{{engine="{rank}"}} {self._chance.random()!r}' for name in GAUGES for rank in RANKS
        )
        samples = sum(not line.startswith("#") for line in lines)
        lines.extend(
            f'vllm:still_total{{engine="0",kind="{kind}"}} {kind}.0' for kind in range(SERIES - samples)
        )
        return "\n".join([*lines, ""]).encode()
