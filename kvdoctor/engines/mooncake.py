"""Mooncake: the store's master, its clients, and TENT, its new transfer engine."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Select, any_of, labelled, sampled

_US = 1e-6

# Hits are of objects, not of tokens. What was never counted is left out of the page.
MASTER = Engine(
    name="mooncake_master",
    prefixes=("master_", "mem_cache_", "file_cache_", "segment_", "valid_get_nums", "total_get_nums"),
    signals={
        m.TIER_USED: (
            (
                Select("master_allocated_bytes"),
                Select("master_allocated_file_size_bytes"),
                Select("master_nof_allocated_bytes"),
            ),
        ),
        m.TIER_CAPACITY: (
            (
                Select("master_total_capacity_bytes"),
                Select("master_total_file_capacity_bytes"),
                Select("master_total_nof_capacity_bytes"),
            ),
        ),
        m.TIER_FILL: (
            (Select("segment_allocated_bytes", over="segment_total_capacity_bytes"),),
            (Select("master_allocated_bytes", over="master_total_capacity_bytes"),),
        ),
        m.TIER_QUERIES: any_of("total_get_nums_"),
        m.TIER_HITS: any_of("valid_get_nums_"),
        m.TIER_EVICTIONS: any_of("master_evicted_key_count"),
        m.TIER_FAILURES: (
            (
                Select("master_put_start_alloc_failures"),
                Select("master_batch_put_start_failed_items"),
            ),
        ),
    },
    marks=("master_allocated_", "master_total_", "master_put_", "master_get_replica", "mem_cache_hit_"),
    default_port=9003,
    layer=True,
    omits_zero=True,
)

CLIENT = Engine(
    name="mooncake_client",
    prefixes=("mooncake_",),
    signals={
        m.TIER_READ_BYTES: any_of("mooncake_transfer_read_bytes"),
        m.TIER_READ_SECONDS: (
            (
                sampled("mooncake_transfer_get_latency", "sum", _US),
                sampled("mooncake_transfer_batch_get_latency", "sum", _US),
            ),
        ),
        m.STORE_BYTES: any_of("mooncake_transfer_write_bytes"),
        m.LOOKUP: ((Select("mooncake_client_rpc_latency", scale=_US),),),
    },
    marks=("mooncake_transfer_", "mooncake_client_", "mooncake_ssd_"),
    default_port=9300,
    layer=True,
    omits_zero=True,
)

TENT = Engine(
    name="mooncake_tent",
    prefixes=("tent_",),
    signals={
        m.TRANSFER_BYTES: ((Select("tent_read_bytes"), Select("tent_write_bytes")),),
        m.TRANSFER_SECONDS: (
            (sampled("tent_read_latency_us", "sum", _US), sampled("tent_write_latency_us", "sum", _US)),
        ),
        m.TRANSFERS: ((Select("tent_read_requests"), Select("tent_write_requests")),),
        m.TRANSFER_POST_SECONDS: (
            (sampled("tent_stage_queue_wait_us", "sum", _US), sampled("tent_stage_dispatch_us", "sum", _US)),
        ),
        m.TRANSFER_TCP_BYTES: (
            (labelled("tent_read_bytes", transport="tcp"), labelled("tent_write_bytes", transport="tcp")),
        ),
        m.TRANSFER_FAILURES: ((Select("tent_read_failures"), Select("tent_write_failures")),),
        m.TRANSFER_FAILOVERS: any_of("tent_transport_failover"),
    },
    marks=("tent_read_", "tent_write_", "tent_transport_", "tent_stage_"),
    default_port=9100,
    layer=True,
)
