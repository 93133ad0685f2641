"""The vocabulary: what an engine, a KV layer or a host can tell us, with unit, kind and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """How a quantity behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Across(str, Enum):
    """How a quantity is brought together over the ranks of one engine."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that can be observed."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    across: Across = Across.SUM

    def __str__(self) -> str:
        return self.name


QUANTITIES: dict[str, Quantity] = {}


def _add(name: str, kind: Kind, unit: str, meaning: str, across: Across = Across.SUM) -> Quantity:
    QUANTITIES[name] = Quantity(name, kind, unit, meaning, across)
    return QUANTITIES[name]


def _gauge(name: str, unit: str, meaning: str, across: Across = Across.SUM) -> Quantity:
    return _add(name, Kind.GAUGE, unit, meaning, across)


def _counter(name: str, unit: str, meaning: str) -> Quantity:
    return _add(name, Kind.COUNTER, unit, meaning)


def _histogram(name: str, unit: str, meaning: str) -> Quantity:
    return _add(name, Kind.HISTOGRAM, unit, meaning)


# The pool and the scheduler
KV_CACHE_USAGE = _gauge("kv_cache_usage", "ratio", "share of KV blocks pinned by requests", Across.MAX)
KV_ALLOCATED = _gauge(
    "kv_allocated", "ratio", "share of KV blocks that hold anything, cached prefixes included", Across.MAX
)
KV_USED = _gauge("kv_used", "tokens", "tokens pinned in the KV pool")
KV_EVICTABLE = _gauge("kv_evictable", "tokens", "cached tokens that no request pins: the live prefix cache")
POOL_TOKENS = _gauge("kv_pool", "tokens", "tokens that the KV pools of all ranks hold")
BLOCK_SIZE = _gauge("kv_block_size", "tokens", "tokens of a KV block", Across.MAX)
EVICTED = _counter("kv_evicted", "tokens", "tokens evicted from the KV pool")
CACHE_CONFIG = _add("cache_config", Kind.INFO, "", "cache configuration, as labels of a constant 1")
RUNNING = _gauge("requests_running", "requests", "requests in the running batch")
WAITING = _gauge("requests_waiting", "requests", "requests that wait, for whatever reason")
WAITING_CAPACITY = _gauge("requests_waiting_capacity", "requests", "wait for a slot, tokens or blocks")
WAITING_DEFERRED = _gauge(
    "requests_waiting_deferred", "requests", "wait for remote KV, LoRA, grammar or encoder"
)
PAUSED = _gauge("requests_paused", "requests", "running requests that were stopped for want of KV blocks")
SWAPPED = _gauge("requests_swapped", "requests", "requests whose KV was swapped to the CPU")
KV_FETCH_WAITING = _gauge("kv_fetch_waiting_to_start", "requests", "asynchronous KV loads not begun")
KV_FETCH_IN_PROGRESS = _gauge("kv_fetch_in_progress", "requests", "asynchronous KV loads on the way")
KV_FETCH_COMPLETED = _gauge("kv_fetch_completed_waiting", "requests", "KV has arrived, no slot yet")
PREEMPTIONS = _counter("preemptions", "events", "running sequences that lost their blocks")
ADMISSION_REJECTIONS = _counter("admission_rejections", "requests", "requests refused at the door")
SLEEP_STATE = _gauge("sleep_state", "", "1 for the state the engine sleeps in", Across.MAX)
HITS_RATE_GAUGE = _gauge(
    "prefix_hit_rate", "ratio", "a hit rate that the engine worked out itself", Across.MAX
)

# The prefix cache and the prompts
PREFIX_QUERIES = _counter("prefix_queries", "tokens", "tokens looked up in the prefix cache")
PREFIX_HITS = _counter("prefix_hits", "tokens", "tokens found in the prefix cache")
EXTERNAL_QUERIES = _counter("external_queries", "tokens", "tokens asked of a KV connector")
EXTERNAL_HITS = _counter("external_hits", "tokens", "tokens that a KV connector promised at admission")
PROMPT_TOKENS = _counter("prompt_tokens", "tokens", "prompt tokens, cached ones included")
PROMPT_COMPUTED = _counter("prompt_tokens_computed", "tokens", "prompt tokens prefilled here")
PROMPT_LOCAL_HIT = _counter("prompt_tokens_local_hit", "tokens", "prompt tokens from the local prefix cache")
PROMPT_EXTERNAL = _counter("prompt_tokens_external", "tokens", "prompt tokens whose KV came from elsewhere")
CACHED_DEVICE = _counter("cached_tokens_device", "tokens", "cached tokens that lay in HBM")
CACHED_HOST = _counter("cached_tokens_host", "tokens", "cached tokens that lay in CPU memory")
CACHED_DISK = _counter("cached_tokens_disk", "tokens", "cached tokens that lay on disk")
CACHED_P2P = _counter("cached_tokens_p2p", "tokens", "cached tokens that lay on another instance")
CACHED_EXTERNAL = _counter("cached_tokens_external", "tokens", "cached tokens of an unnamed outer tier")
GENERATED = _counter("generated_tokens", "tokens", "output tokens")

# Requests
FINISHED = _counter("requests_finished", "requests", "requests that ended, for whatever reason")
FAILED = _counter("requests_failed", "requests", "requests that ended by abort or error")
TTFT = _histogram("ttft", "seconds", "front-end arrival to first token, at the first token")
ITL = _histogram("itl", "seconds", "time between two output events of a request")
TPOT = _histogram("tpot", "seconds", "mean time per output token of a request, at its end")
E2E = _histogram("e2e", "seconds", "arrival to last token, at the end")
QUEUE = _histogram("queue", "seconds", "queued to first scheduled, at the end")
PREFILL = _histogram("prefill", "seconds", "first scheduled to first token, at the end")
DECODE = _histogram("decode", "seconds", "first to last token, at the end")
PROMPT_LENGTH = _histogram("prompt_length", "tokens", "prompt tokens of a request, at the end")
OUTPUT_LENGTH = _histogram("output_length", "tokens", "output tokens of a request, at the end")
REQUEST_COMPUTED = _histogram(
    "request_computed", "tokens", "prompt tokens computed for a request, at the end"
)
REQUEST_PREEMPTIONS = _histogram("request_preemptions", "events", "preemptions of a request, at the end")
ITERATION_TOKENS = _histogram("iteration_tokens", "tokens", "tokens of one engine step")
STEP_SECONDS = _histogram("step_seconds", "seconds", "duration of one decode step")
STEPS = _counter("steps", "steps", "forward passes")
PROMPT_SECONDS = _counter("prompt_seconds", "seconds", "time that requests spent computing their prompts")
OUTPUT_SECONDS = _counter("output_seconds", "seconds", "time that requests spent generating")
DECODE_CONTEXT = _gauge("decode_context", "tokens", "KV tokens that a decode step reads")

# Arithmetic and speculation
ESTIMATED_FLOPS = _counter("estimated_flops", "flop", "the engine's own arithmetic; 0 when switched off")
ESTIMATED_READ = _counter("estimated_read_bytes", "bytes", "the engine's own arithmetic; 0 when switched off")
ESTIMATED_WRITE = _counter(
    "estimated_write_bytes", "bytes", "the engine's own arithmetic; 0 when switched off"
)
SPEC_DRAFTS = _counter("spec_drafts", "steps", "steps with a draft")
SPEC_DRAFT_TOKENS = _counter("spec_draft_tokens", "tokens", "tokens drafted")
SPEC_LENGTH = _gauge("spec_accept_length", "tokens", "tokens a verify step gives", Across.MAX)
SPEC_ACCEPTED = _counter("spec_accepted_tokens", "tokens", "drafted tokens accepted")

# KV on the move: between instances, and between tiers
TRANSFER_BYTES = _counter("kv_transfer_bytes", "bytes", "KV bytes moved between instances")
TRANSFER_SECONDS = _counter("kv_transfer_seconds", "seconds", "sum of the durations of those transfers")
TRANSFERS = _counter("kv_transfers", "transfers", "transfers between instances")
TRANSFER_POST_SECONDS = _counter("kv_transfer_post_seconds", "seconds", "time spent posting descriptors")
TRANSFER_DESCRIPTORS = _counter("kv_transfer_descriptors", "pieces", "descriptors: contiguous pieces moved")
TRANSFER_FAILURES = _counter(
    "kv_transfer_failures", "events", "failed transfers, expired requests, lost keys"
)
LOAD_BYTES = _counter("kv_load_bytes", "bytes", "KV bytes loaded into HBM from an outer tier")
LOAD_SECONDS = _counter("kv_load_seconds", "seconds", "sum of the durations of those loads (they overlap)")
LOADS = _counter("kv_loads", "jobs", "load jobs")
STORE_BYTES = _counter("kv_store_bytes", "bytes", "KV bytes stored to an outer tier")
STORE_SECONDS = _counter("kv_store_seconds", "seconds", "sum of the durations of those stores (they overlap)")
TIER_READ_BYTES = _counter("kv_tier_read_bytes", "bytes", "KV bytes read from a far tier (disk, remote)")
TIER_READ_SECONDS = _counter("kv_tier_read_seconds", "seconds", "sum of the durations of those reads")
TIER_QUERIES = _counter("kv_tier_queries", "chunks", "chunks looked up in a far tier")
TIER_HITS = _counter("kv_tier_hits", "chunks", "chunks found in a far tier")
TIER_FAILURES = _counter("kv_tier_failures", "events", "failed promotions, allocations and dropped blocks")
TIER_USAGE = _gauge("kv_tier_usage", "ratio", "share of an outer tier pinned by transfers", Across.MAX)
TIER_FILL = _gauge("kv_tier_fill", "ratio", "share of an outer tier that holds KV", Across.MAX)
TIER_USED = _gauge("kv_tier_used", "bytes", "KV held in outer tiers")
TIER_CAPACITY = _gauge("kv_tier_capacity", "bytes", "what outer tiers can hold")
TIER_EVICTIONS = _counter("kv_tier_evictions", "chunks", "chunks, keys or tokens that an outer tier let go")
LOAD_RATE = _histogram("kv_load_rate", "bytes/s", "rate of a load into HBM")
TIER_RATE = _histogram("kv_tier_rate", "bytes/s", "rate of a read from a far tier")
TRANSFER_TCP_BYTES = _counter(
    "kv_transfer_tcp_bytes", "bytes", "KV bytes between instances that went over TCP"
)
TRANSFER_FAILOVERS = _counter(
    "kv_transfer_failovers", "events", "transfers that changed to another transport"
)
TELEMETRY_LOST = _counter("kv_telemetry_lost", "events", "events that a layer's own telemetry dropped")
LOOKUP = _histogram("kv_lookup", "seconds", "time to look a prompt up in an outer tier")
LOOKUP_BLOCKING = _histogram(
    "kv_lookup_blocking", "seconds", "time that the engine's loop waits for such a look-up"
)
REUSE_GAP = _histogram("kv_block_reuse_gap", "seconds", "time between two uses of a block (sampled)")
IDLE_BEFORE_EVICT = _histogram(
    "kv_block_idle_before_evict", "seconds", "idle time of an evicted block (sampled)"
)
BLOCK_LIFETIME = _histogram("kv_block_lifetime", "seconds", "allocation to eviction of a block (sampled)")

# The process, as the endpoint tells it
PROCESS_START = _gauge(
    "process_start", "unix seconds", "start of the process behind the endpoint", Across.MAX
)
PROCESS_CPU = _counter("process_cpu", "seconds", "CPU seconds of the process behind the endpoint")

# The host: the processes of the family (by pid, role and thread), their cgroups, and the machine around them
HOST_PROCESS_THREADS = _gauge("host_process_threads", "threads", "threads of a process")
HOST_RESIDENT = _gauge("host_resident", "bytes", "resident memory of a process")
HOST_SWAPPED = _gauge("host_swapped", "bytes", "memory of a process that lies in swap")
HOST_NODE = _gauge("host_node", "", "1 for each NUMA node that a process may run on")
HOST_FAULTS = _counter("host_major_faults", "faults", "page faults that waited for a disk")
HOST_READ = _counter("host_read", "bytes", "bytes that a process read from devices")
HOST_WRITTEN = _counter("host_written", "bytes", "bytes that a process wrote to devices")
HOST_ASKED = _counter("host_asked", "bytes", "bytes that a process read, page cache and sockets included")
HOST_THREAD_CPU = _counter("host_thread_cpu", "seconds", "time on a CPU, by thread name")
HOST_THREAD_WAIT = _counter("host_thread_wait", "seconds", "time ready to run and waiting for a CPU")
HOST_VOLUNTARY = _counter("host_switches_voluntary", "switches", "times that a thread went to sleep")
HOST_INVOLUNTARY = _counter("host_switches_involuntary", "switches", "times that a thread lost its CPU")
HOST_THREAD_STATE = _counter("host_thread_state", "samples", "samples of a thread's state: R, S or D")
HOST_QUOTA = _gauge("host_cpu_quota", "CPUs", "CPUs that a cgroup allows", Across.MAX)
HOST_PERIODS = _counter("host_cpu_periods", "periods", "periods in which a cgroup with a quota ran")
HOST_THROTTLED_PERIODS = _counter("host_throttled_periods", "periods", "periods in which it ran out of quota")
HOST_THROTTLED = _counter("host_throttled", "seconds", "time it stood still, summed over CPUs")
HOST_CGROUP_MEMORY = _gauge("host_cgroup_memory", "bytes", "memory charged to a cgroup")
HOST_CGROUP_LIMIT = _gauge("host_cgroup_memory_limit", "bytes", "memory limit of a cgroup")
HOST_CGROUP_LIMIT_HITS = _counter("host_cgroup_limit_hits", "events", "times that a memory limit was reached")
HOST_OOM_KILLS = _counter("host_oom_kills", "events", "processes killed in a cgroup for want of memory")
HOST_CGROUP_PRESSURE = _counter("host_cgroup_pressure", "seconds", "time that tasks of a cgroup were stalled")
HOST_PRESSURE = _counter("host_pressure", "seconds", "time that tasks of the machine were stalled")
HOST_CPUS = _gauge("host_cpus", "CPUs", "CPUs that the family may run on", Across.MAX)
HOST_CPU = _counter("host_cpu", "seconds", "CPU time by state, over those CPUs")
HOST_SWAP_IN = _counter("host_swap_in", "pages", "pages that the machine swapped in")
HOST_MOUNT = _gauge("host_mount", "", "1 for each mount of model or KV files")
HOST_DISK_BYTES = _counter("host_disk_bytes", "bytes", "bytes moved by a disk, by operation")
HOST_DISK_OPERATIONS = _counter("host_disk_operations", "operations", "requests a disk completed")
HOST_DISK_IN_FLIGHT = _counter("host_disk_in_flight", "seconds", "sum of the requests' durations")
HOST_DISK_BUSY = _counter("host_disk_busy", "seconds", "time with any request at the disk")
HOST_NETWORK_BYTES = _counter("host_network_bytes", "bytes", "bytes over an interface, by direction")
HOST_NETWORK_DROPS = _counter("host_network_drops", "packets", "packets dropped at an interface")
HOST_NETWORK_SPEED = _gauge("host_network_speed", "bytes/s", "rate of an interface, each way", Across.MAX)
HOST_TCP_SEGMENTS = _counter("host_tcp_segments", "segments", "TCP segments sent")
HOST_TCP_RETRANSMITS = _counter("host_tcp_retransmits", "segments", "TCP segments sent again")
HOST_INFINIBAND_BYTES = _counter("host_infiniband_bytes", "bytes", "bytes over an InfiniBand or RoCE port")
HOST_INFINIBAND_SPEED = _gauge("host_infiniband_speed", "bytes/s", "rate of a port, each way", Across.MAX)
HOST_DUMPS = _counter("host_stack_dumps", "dumps", "dumps of a process's Python stacks")
HOST_STACKS = _counter("host_stacks", "samples", "samples of a thread's folded stack")
HOST_GAP = _gauge("host_gap", "", "1 for each thing that could not be read")

# The cards, as NVML tells
GPU_INFO = _gauge("gpu_info", "", "1, with a card's name and UUID")
GPU_NODE = _gauge("gpu_node", "", "1, with a card's NUMA node")
GPU_OCCUPANCY = _gauge("gpu_time_occupancy", "ratio", "share of time with any kernel: not compute in use")
GPU_MEMORY_OCCUPANCY = _gauge(
    "gpu_memory_time_occupancy", "ratio", "share of time with any access: no bandwidth"
)
GPU_MEMORY_USED = _gauge("gpu_memory_used", "bytes", "memory in use on a card, the driver's included")
GPU_MEMORY = _gauge("gpu_memory", "bytes", "memory of a card")
GPU_CLOCK = _gauge("gpu_clock", "Hz", "clock of the SMs or of the memory")
GPU_CLOCK_LIMIT = _gauge("gpu_clock_limit", "Hz", "highest clock of the SMs or of the memory")
GPU_POWER = _gauge("gpu_power", "W", "power drawn")
GPU_POWER_LIMIT = _gauge("gpu_power_limit", "W", "power limit in force")
GPU_THROTTLE = _gauge("gpu_throttle", "", "1 while a reason holds the clocks down")
GPU_THROTTLED = _counter("gpu_throttled", "seconds", "time that a reason held the clocks down")
GPU_LINK_GENERATION = _gauge("gpu_link_generation", "", "PCIe generation now")
GPU_LINK_GENERATION_LIMIT = _gauge("gpu_link_generation_limit", "", "PCIe generation of card and slot")
GPU_LINK_GENERATION_OWN = _gauge("gpu_link_generation_own", "", "PCIe generation of the card alone")
GPU_LINK_WIDTH = _gauge("gpu_link_width", "lanes", "PCIe lanes now")
GPU_LINK_WIDTH_LIMIT = _gauge("gpu_link_width_limit", "lanes", "PCIe lanes of card and slot")
GPU_LINK_RATE = _gauge("gpu_link_rate", "bytes/s", "PCIe traffic over 20 ms, by direction")
GPU_STATE = _gauge("gpu_performance_state", "", "P-state: 0 is full speed")
GPU_ECC = _counter("gpu_ecc_errors", "errors", "memory errors, corrected or not")
GPU_REMAPPED = _gauge("gpu_remapped_rows", "rows", "rows remapped, pending or failed")
GPU_XIDS = _counter("gpu_xids", "events", "Xid errors while we watched, by number")
GPU_PROCESS_BYTES = _gauge("gpu_process_memory", "bytes", "memory of a process on a card")
GPU_PROCESS_OCCUPANCY = _gauge("gpu_process_occupancy", "ratio", "share of time with kernels of a process")
GPU_PROCESS = _gauge("gpu_process", "", "1 for each process on a card")

GPU_MISSING = _gauge("gpu_missing", "", "1 for a card that stopped answering, with the reason")
GPU_SETTING = _gauge("gpu_setting", "", "1 for each circumstance that decides what a card tells")
GPU_BUS_WIDTH = _gauge("gpu_bus_width", "bits", "width of the memory's bus")
GPU_ENERGY = _counter("gpu_energy", "joules", "energy drawn since the driver was loaded")
GPU_C2C_LINKS = _gauge("gpu_c2c_links", "links", "links to a CPU on the same board")
GPU_LINK_FAULTS = _counter("gpu_link_faults", "events", "PCIe errors by kind")
GPU_PCIE_BYTES = _counter("gpu_pcie_bytes", "bytes", "PCIe traffic, where the counter cannot have wrapped")
GPU_NVLINK_BYTES = _counter("gpu_nvlink_bytes", "bytes", "NVLink payload over all links of a card")

# The cards, as their profiling counters tell (GPM, DCGM)
DRAM_ACTIVE = _gauge("gpu_dram_active", "ratio", "share of cycles in which HBM moves data", Across.MAX)
TENSOR_ACTIVE = _gauge("gpu_tensor_active", "ratio", "share of cycles in which tensor pipes work", Across.MAX)
SM_ACTIVE = _gauge("gpu_sm_active", "ratio", "share of the SMs' cycles with any warp resident", Across.MAX)
SM_OCCUPANCY = _gauge("gpu_sm_occupancy", "ratio", "resident warps over the most there can be", Across.MAX)
ENGINE_ACTIVE = _gauge("gpu_engine_active", "ratio", "share of time with any kernel", Across.MAX)
GPU_PCIE_OUT = _gauge("gpu_pcie_out", "bytes/s", "PCIe traffic from the cards")
GPU_PCIE_IN = _gauge("gpu_pcie_in", "bytes/s", "PCIe traffic to the cards")
GPU_NVLINK_OUT = _gauge("gpu_nvlink_out", "bytes/s", "NVLink traffic from the cards")
GPU_NVLINK_IN = _gauge("gpu_nvlink_in", "bytes/s", "NVLink traffic to the cards")
GPU_C2C_OUT = _gauge("gpu_c2c_out", "bytes/s", "traffic from the cards to a CPU on NVLink-C2C")
GPU_C2C_IN = _gauge("gpu_c2c_in", "bytes/s", "traffic to the cards from a CPU on NVLink-C2C")
GPU_SWITCHING = _gauge("gpu_context_switching", "ratio", "share of time in switches between contexts")
COUNTER_SECONDS = _gauge(
    "gpu_counter_seconds", "seconds", "length of the stretch that counters are a mean of"
)
GPU_LINK_ERRORS = _counter("gpu_link_replays", "events", "PCIe packets sent again")
