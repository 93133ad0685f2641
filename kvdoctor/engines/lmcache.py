"""LMCache: inside the engine's workers (`lmcache:`), and its server of several processes (`lmcache_mp_`)."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Era, Select, any_of, sampled

_GB = 1e9
_STAGED = (("phase", "staging"), ("direction", "h2d"))
"""The copy itself; the `kernel` phase covers the same transfer and mostly waits for SMs."""

# The hit-rate gauges are of the last ten seconds, and one of them reads 1 when nothing happened: not read.
ENGINE = Engine(
    name="lmcache",
    prefixes=("lmcache:",),
    signals={
        m.EXTERNAL_QUERIES: any_of("lmcache:num_lookup_tokens", "lmcache:num_requested_tokens"),
        m.EXTERNAL_HITS: any_of("lmcache:num_lookup_hits", "lmcache:num_hit_tokens"),
        m.LOAD_SECONDS: ((sampled("lmcache:time_to_retrieve", "sum"),),),
        m.LOADS: ((sampled("lmcache:time_to_retrieve", "count"),),),
        m.STORE_SECONDS: ((sampled("lmcache:time_to_store", "sum"),),),
        m.LOOKUP: any_of("lmcache:time_to_lookup"),
        m.TIER_READ_BYTES: ((Select("lmcache:num_remote_read_bytes", every=True),),),
        m.TIER_READ_SECONDS: ((sampled("lmcache:remote_time_to_get", "sum", 1e-3),),),
        m.TIER_USED: (
            (
                Select("lmcache:local_cache_usage", every=True),
                Select("lmcache:remote_cache_usage", every=True),
                Select("lmcache:local_storage_usage", every=True),
            ),
        ),
        m.TIER_EVICTIONS: any_of("lmcache:local_cpu_evict_keys_count"),
        m.TIER_FAILURES: any_of("lmcache:local_cpu_evict_failed_count"),
    },
    eras=(
        Era("lmcache:cache_hit_rate", until="0.3.3"),
        Era("lmcache:num_lookup_tokens", since="0.3.5"),
        Era("lmcache:num_vllm_hit_tokens", since="0.3.7"),
        Era("lmcache:num_prompt_tokens", since="0.3.9"),
        Era("lmcache:forced_unpin_count", since="0.3.12"),
        Era("lmcache:time_to_lookup", since="0.3.15"),
    ),
    default_port=6999,
    layer=True,
    repeats=("worker_id",),
)

SERVER = Engine(
    name="lmcache_mp",
    prefixes=("lmcache_mp_", "lmcache_blend_"),
    signals={
        m.EXTERNAL_QUERIES: any_of("lmcache_mp_lookup_requested_tokens"),
        m.EXTERNAL_HITS: any_of("lmcache_mp_lookup_hit_tokens"),
        m.CACHED_HOST: any_of("lmcache_mp_lookup_hit_l1_tokens"),
        m.CACHED_EXTERNAL: any_of("lmcache_mp_lookup_hit_l2_tokens"),
        m.LOAD_BYTES: ((Select("lmcache_mp_transfer_phase_bytes", _STAGED),),),
        m.LOAD_SECONDS: ((Select("lmcache_mp_transfer_phase_elapsed_seconds", _STAGED),),),
        m.LOADS: any_of("lmcache_mp_num_finished_retrieves"),
        m.LOAD_RATE: ((Select("lmcache_mp_l0_l1_load_throughput_GB_per_second", scale=_GB),),),
        m.TIER_RATE: ((Select("lmcache_mp_l2_load_throughput_GB_per_second", scale=_GB),),),
        m.TIER_FILL: any_of("lmcache_mp_l1_usage_ratio"),
        m.TIER_USED: ((Select("lmcache_mp_l1_memory_usage_bytes"), Select("lmcache_mp_l2_usage_bytes")),),
        m.TIER_EVICTIONS: any_of("lmcache_mp_l1_evicted_chunks"),
        m.TIER_FAILURES: (
            (
                Select("lmcache_mp_l1_allocation_failure_chunks"),
                Select("lmcache_mp_l2_prefetch_failure_chunks"),
            ),
        ),
        m.TELEMETRY_LOST: any_of("lmcache_mp_event_bus_dropped_events"),
    },
    eras=(
        Era("lmcache_mp_l1_read_keys", until="0.4.5"),
        Era("lmcache_mp_l1_read_chunks", since="0.5.0"),
    ),
    default_port=8080,
    layer=True,
    omits_zero=True,
)
