"""The vocabulary of log lines and reports: what they state beyond the metrics, as rates, gauges and settings."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.quantity import Across, Quantity, counter, gauge


def _same(name: str, unit: str, meaning: str) -> Quantity:
    """A figure that ranks repeat, or that stands for one request, transfer or batch: never summed."""
    return gauge(name, unit, meaning, Across.MAX)


# Rates over the line's own interval
PROMPT_RATE = gauge("log_prompt_rate", "tokens/s", "prompt tokens a second; computed ones since vLLM 0.16")
GENERATION_RATE = gauge("log_generation_rate", "tokens/s", "output tokens a second")
EXTERNAL_HIT_RATE = _same(
    "log_external_hit_rate", "ratio", "hit rate of the KV connector, last 1000 requests"
)

# One prefill batch, one step, speculation
BATCH_NEW = _same("log_batch_new_tokens", "tokens", "prompt tokens computed in one prefill batch")
BATCH_CACHED = _same("log_batch_cached_tokens", "tokens", "prompt tokens found in the cache for that batch")
BATCH_HIT_RATE = _same(
    "log_batch_hit_rate", "ratio", "hit rate of the last prefill batch, 0 between two batches"
)
BATCH_SEQUENCES = _same("log_batch_new_sequences", "requests", "requests in one prefill batch")
ACCEPT_LENGTH = _same("log_accept_length", "tokens", "tokens that one speculative step gives")
CUDA_GRAPH = _same("log_cuda_graph", "", "1 where the step was replayed from a graph")
STEP = _same("log_step", "seconds", "duration of one engine step")

# One request
QUEUED = _same("log_queue_time", "seconds", "time a request was queued")
PREFILL_TIME = _same("log_prefill_time", "seconds", "time a request was prefilled")
DECODE_TIME = _same("log_decode_time", "seconds", "time a request was decoded")
REQUEST_TIME = _same("log_request_time", "seconds", "time of a whole request")
TTFT = _same("log_ttft", "seconds", "time to first token")
ITL = _same("log_itl", "seconds", "time between tokens of one request")
DECODE_RATE = _same("log_decode_rate", "tokens/s", "output tokens a second of one request")
PREFILL_RATE = _same("log_prefill_rate", "tokens/s", "prompt tokens a second while prefilling")
PROMPT_TOKENS = _same("log_prompt_tokens", "tokens", "prompt tokens of one request")
COMMON_PREFIX = _same("log_common_prefix", "tokens", "tokens that a prompt shares with the one before")
COMMON_SHARE = _same("log_common_share", "ratio", "share of a prompt that its best match covers")

# KV on the move
TRANSFER_TIME = _same("log_transfer_time", "seconds", "one KV transfer between instances, setup included")
TRANSFER_SETUP = _same("log_transfer_setup", "seconds", "setting up or posting that transfer")
TRANSFER_RATE = _same("log_transfer_rate", "bytes/s", "rate of KV transfers")
TRANSFER_BYTES = _same("log_transfer_bytes", "bytes", "bytes of one KV transfer")
TIER_HIT = _same("log_tier_hit_tokens", "tokens", "prompt tokens that an outer tier holds")
TIER_NEED = _same("log_tier_need_tokens", "tokens", "of these, tokens that must be loaded")
TIER_TOTAL = _same("log_tier_total_tokens", "tokens", "tokens of the prompt that was looked up")
LOADED = _same("log_loaded_tokens", "tokens", "tokens of one load from an outer tier")
LOAD_TIME = _same("log_load_time", "seconds", "one load from an outer tier")
LOAD_RATE = _same("log_load_rate", "bytes/s", "rate of that load")
STORED = _same("log_stored_tokens", "tokens", "tokens of one store to an outer tier")
SKIPPED = _same("log_store_skipped_tokens", "tokens", "leading tokens that the tier already held")
STORE_TIME = _same("log_store_time", "seconds", "one store to an outer tier")
STORE_RATE = _same("log_store_rate", "bytes/s", "rate of that store")
TCP = _same("log_transport_tcp", "", "1 where bulk data goes over TCP")
FAST_PATH_OFF = _same("log_fast_path_off", "", "1 where a direct transport was ruled out")

# Settings
POOL_TOKENS = _same("log_pool_tokens", "tokens", "tokens that the KV pool holds")
FULL_LENGTH = _same("log_full_length_requests", "requests", "requests of full length that fit the pool")
MAX_LENGTH = _same("log_max_length", "tokens", "longest context allowed")
MAX_RUNNING = _same("log_max_running", "requests", "sequences allowed in a batch")
STEP_TOKENS = _same("log_max_step_tokens", "tokens", "tokens allowed in one step")
PREFILL_TOKENS = _same("log_max_prefill_tokens", "tokens", "tokens allowed in one prefill batch")
BLOCK = _same("log_block_size", "tokens", "tokens of the smallest piece that can hit")
CACHING = _same("log_prefix_caching", "", "0 where prefix caching is switched off")
LENGTH_CAP = _same("log_max_pages", "pages", "pages a sequence may have")

# What reports state beside the engine's own words
GPU_BUSY = _same("log_gpu_busy", "ratio", "share of time in which the GPU ran anything")
CPU_BUSY = _same("log_cpu_busy", "ratio", "share of one core that the busiest process takes")
CONCURRENCY = _same("log_concurrency", "requests", "requests that clients keep going at once")
OFFERED = _same("log_offered", "requests/s", "requests a second that clients send")
SERVED = _same("log_served", "requests/s", "requests a second that come to an end")
REACHED = _same("log_bandwidth_reached", "bytes/s", "rate at which a kernel or a step read memory")
REACHABLE = _same("log_bandwidth_reachable", "bytes/s", "rate at which memory can be read")
WEIGHTS = _same("log_weight_bytes", "bytes", "bytes of the weights that a step reads")
SHARED_PREFIX = _same("log_shared_prefix", "tokens", "tokens that prompts are known to share")
QUERIES = _same("log_prefix_queries", "tokens", "tokens looked up in the prefix cache")
HITS = _same("log_prefix_hits", "tokens", "tokens found in the prefix cache")
KEYS_DIFFER = _same("log_keys_differ", "", "1 where equal tokens have unequal keys")
VOLATILE = _same("log_volatile_front", "", "1 where prompts are known to differ near their front")
HOST_SHARE = _same("log_host_share", "ratio", "share of samples or of a step in the CPU's own work")
HOST_TIME = _same("log_host_time", "seconds", "the CPU's own work in one step or request, from a profile")
GPU_TIME = _same("log_gpu_time", "seconds", "kernels in one step, from a profile")
NETWORK_SHARE = _same("log_network_share", "ratio", "share of a step in collectives, from a profile")
DRAM_ACTIVE = _same("log_dram_active", "ratio", "share of cycles in which memory moved data, or of its rate")
NETWORK_TIME = _same("log_network_time", "seconds", "one collective between the cards, from a profile")
QUEUE_SHARE = _same("log_queue_part", "ratio", "share of a request's time in the queue")
PREFILL_SHARE = _same(
    "log_prefill_part", "ratio", "share of a request's time, or of a step, in computing prompts"
)
MOVE_SHARE = _same("log_move_share", "ratio", "share of a step in copies between the GPU and a tier")
KERNEL_SHARE = _same("log_kernel_share", "ratio", "share of a step in one kind of kernel")
TENSOR_ACTIVE = _same(
    "log_tensor_active", "ratio", "share of cycles in which tensor cores ran, or of the roof"
)
GPU_IDLE = _same("log_gpu_idle", "ratio", "share of time in which the GPU ran nothing")
CARDS = _same("log_cards", "", "cards that serve together")
LINK_RATED = _same("log_link_rated", "bytes/s", "rate that a link is sold for")
LOAD_TOKEN_RATE = _same("log_load_token_rate", "tokens/s", "tokens a second that an outer tier hands over")
RECOMPUTE_TIME = _same("log_recompute_time", "seconds", "computing what could be loaded")
EXPECTED_HIT_RATE = _same("log_expected_hit_rate", "ratio", "hit rate that the prompts allow")
STALL_BESIDE = _same(
    "log_stall_beside_prefill", "seconds", "time without a token while another prompt is computed"
)
CHANGED_BY = _same("log_changed_by", "x", "a figure before over after, one setting changed between them")
REPEATED = _same("log_repeated", "", "1 where prompts are known to repeat")
SLOWEST = _same("log_named_slowest", "", "1 where a report names what takes most of the time")
NOTHING_ASKED = _same("log_nothing_asked", "", "1 where nothing is known to be asked of the engine")
WEIGHTS_OUTSIDE = _same("log_weights_outside", "", "1 where weights lie outside the GPU's memory")
PREFILL_BLOCKS = _same(
    "log_prefill_blocks", "", "1 where tokens are known to stop while a prompt is computed"
)
SERIAL_LOADS = _same("log_serial_loads", "", "1 where loads are known to follow one another")
RESERVES = _same("log_reserves", "", "1 where room is known to be reserved for the longest answer")
OTHERS_HELD = _same("log_others_held", "", "1 where requests are known to wait for others")
COMPUTED_AGAIN = _same("log_computed_again", "", "1 where tokens are known to be computed a second time")
TIMES_SLOWER = _same("log_times_slower", "x", "a figure with one thing over the figure without it")
BYTES_A_TOKEN = _same("log_bytes_a_token", "bytes", "bytes that a token reads of memory")
POOL_BLOCKS = _same("log_pool_blocks", "blocks", "blocks of the KV pool")
IN_FLIGHT = _same("log_in_flight", "requests", "requests that the engine has taken in")
QUEUED_STEPS = _same("log_queued_steps", "ratio", "share of steps in which requests wait")
REQUEST_BYTES = _same("log_request_bytes", "bytes", "bytes of KV that one request loads or hands over")
PIECES = _same("log_pieces", "", "pieces that one transfer is made of")
LINK_SHARE = _same("log_link_share", "ratio", "share of its rated speed that a link gives")
FAILED = _same("log_failed", "requests", "requests that failed")
WALL = _same("log_wall", "seconds", "duration of a whole run")

# Events, counted
SWAPS = counter("log_swaps", "events", "preemptions that swap KV to CPU memory")
REPROCESSED = counter("log_reprocessed", "events", "prompts computed anew although they matched")
NO_SPACE = counter("log_no_space", "events", "refusals for want of KV space")
TIER_FULL = counter("log_tier_full", "events", "stores that an outer tier had no room for")
ERRORS = counter("log_errors", "events", "transfers and loads that failed")

SETTINGS = frozenset(
    (
        POOL_TOKENS,
        FULL_LENGTH,
        MAX_LENGTH,
        MAX_RUNNING,
        STEP_TOKENS,
        PREFILL_TOKENS,
        BLOCK,
        CACHING,
        LENGTH_CAP,
    )
)
"""What an engine says once, while it starts."""
OWN: tuple[Quantity, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Quantity))
SHARED: tuple[Quantity, ...] = (
    m.RUNNING,
    m.WAITING,
    m.WAITING_DEFERRED,
    m.SWAPPED,
    m.KV_CACHE_USAGE,
    m.KV_FETCH_WAITING,
    m.KV_FETCH_IN_PROGRESS,
    m.KV_FETCH_COMPLETED,
    m.HITS_RATE_GAUGE,
    m.PREEMPTIONS,
)
PROFILES = ("profile", "trace", "stacks", "nsys", "nsight", "ncu", "py-spy", "perf", "flamegraph")
"""Kinds of a report's rows that tell where time goes."""
PREFIX = "log:"
"""Raw series that come from a log are named after the quantity, behind this."""
LINE = "log:line"
"""Number of the line that a reading comes from."""


def raw(quantity: Quantity) -> str:
    """Return the raw name of a quantity's series."""
    return PREFIX + quantity.name
