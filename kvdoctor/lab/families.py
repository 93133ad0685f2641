"""The metric families of the lab server: vLLM's names, labels and buckets under a prefix of our own."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

PREFIX = "kvlab:"
_SHORT = (
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
_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
_LONG = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0)
_LENGTH = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_SIZE = tuple(float(2**power) for power in range(12, 31, 2))
_LABELS = ("model_name", "engine")


class Maker:
    """Makes families that carry the labels of one model and one engine."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._own = {"model_name": model, "engine": "0"}

    def own(self, **more: str) -> dict[str, str]:
        """Labels of one series of a family that has more than one."""
        return {**self._own, **more}

    def gauges(self, name: str, text: str, *more: str) -> Gauge:
        """A gauge with labels of its own."""
        return Gauge(PREFIX + name, text, (*_LABELS, *more), registry=self.registry)

    def gauge(self, name: str, text: str) -> Gauge:
        """A gauge of one series."""
        return self.gauges(name, text).labels(**self._own)

    def counters(self, name: str, text: str, *more: str) -> Counter:
        """A counter with labels of its own."""
        return Counter(PREFIX + name, text, (*_LABELS, *more), registry=self.registry)

    def counter(self, name: str, text: str) -> Counter:
        """A counter of one series."""
        return self.counters(name, text).labels(**self._own)

    def histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        """A histogram of one series."""
        found = Histogram(PREFIX + name, text, _LABELS, buckets=buckets, registry=self.registry)
        return found.labels(**self._own)


class Families:
    """What every server exports."""

    def __init__(self, make: Maker) -> None:
        self.make = make
        ProcessCollector(registry=make.registry)
        self.running = make.gauge("num_requests_running", "Requests in the batch")
        self.waiting = make.gauge("num_requests_waiting", "Requests that wait")
        self.waiting_reason = make.gauges("num_requests_waiting_by_reason", "Requests that wait", "reason")
        self.fetching = make.gauges("num_requests_kv_fetch_by_stage", "Requests whose KV is fetched", "stage")
        self.usage = make.gauge("kv_cache_usage_perc", "Share of the blocks in use, 1 for all")
        self.preemptions = make.counter("num_preemptions", "Preemptions")
        self.queries = make.counter("prefix_cache_queries", "Tokens looked up in the prefix cache")
        self.hits = make.counter("prefix_cache_hits", "Tokens found in the prefix cache")
        self.prompt = make.counter("prompt_tokens", "Prompt tokens")
        self.prompt_source = make.counters("prompt_tokens_by_source", "Prompt tokens by source", "source")
        self.cached_source = make.counters("prompt_tokens_cached_by_source", "Cached tokens", "source")
        self.generated = make.counter("generation_tokens", "Output tokens")
        self.success = make.counters("request_success", "Finished requests", "finished_reason")
        self.ttft = make.histogram("time_to_first_token_seconds", "Time to first token", _SHORT)
        self.itl = make.histogram("inter_token_latency_seconds", "Time between two tokens", _GAP)
        self.tpot = make.histogram("request_time_per_output_token_seconds", "Mean time per token", _GAP)
        self.e2e = make.histogram("e2e_request_latency_seconds", "Arrival to last token", _LONG)
        self.queue = make.histogram("request_queue_time_seconds", "Queued to scheduled", _LONG)
        self.prefill = make.histogram("request_prefill_time_seconds", "Scheduled to first token", _LONG)
        self.decode = make.histogram("request_decode_time_seconds", "First to last token", _LONG)
        self.prompt_length = make.histogram("request_prompt_tokens", "Prompt tokens", _LENGTH)
        self.output_length = make.histogram("request_generation_tokens", "Output tokens", _LENGTH)
        self.computed = make.histogram("request_prefill_kv_computed_tokens", "Tokens computed", _LENGTH)
        self.request_preemptions = make.histogram("request_num_preemptions", "Preemptions", (0, 1, 2, 5, 10))
        self.steps = make.histogram("iteration_tokens_total", "Tokens of a step", _STEP)

    def tell_config(self, labels: Sequence[tuple[str, str]]) -> None:
        """Export `cache_config_info`."""
        names = ("engine", *(name for name, _ in labels))
        info = Gauge(f"{PREFIX}cache_config_info", "The cache", names, registry=self.make.registry)
        info.labels(engine="0", **dict(labels)).set(1)


class Outside:
    """What a server with tiers exports beside."""

    def __init__(self, make: Maker) -> None:
        self.queries = make.counter("external_prefix_cache_queries", "Tokens asked of the tiers")
        self.hits = make.counter("external_prefix_cache_hits", "Tokens that the tiers promised")
        self.lookup = make.histogram("kv_offload_lookup_sync_delay_seconds", "Look-up in the tiers", _SHORT)


class Offload:
    """Loads and stores of tiers on this machine."""

    def __init__(self, make: Maker) -> None:
        self.load_bytes = make.counter("kv_offload_load_bytes", "Bytes loaded")
        self.load_time = make.counter("kv_offload_load_time", "Seconds of loads")
        self.load_size = make.histogram("kv_offload_load_size", "Bytes of a load", _SIZE)
        self.store_bytes = make.counter("kv_offload_store_bytes", "Bytes stored")
        self.store_time = make.counter("kv_offload_store_time", "Seconds of stores")


class Transfers:
    """Transfers from another instance."""

    def __init__(self, make: Maker) -> None:
        self.size = make.histogram("nixl_bytes_transferred", "Bytes of a transfer", _SIZE)
        self.seconds = make.histogram("nixl_xfer_time_seconds", "Seconds of a transfer", _SHORT)
        self.pieces = make.histogram("nixl_num_descriptors", "Pieces of a transfer", _LENGTH)
