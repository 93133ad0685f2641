"""NIXL's own exporter: bytes and microseconds of transfers between agents."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, Select, any_of, sampled

_US = 1e-6

# `agent_xfer_time` without `_total` is a gauge of the last operation: the counters are named in full.
ENGINE = Engine(
    name="nixl",
    prefixes=("agent_",),
    signals={
        m.TRANSFER_BYTES: ((Select("agent_rx_bytes_total"), Select("agent_tx_bytes_total")),),
        m.TRANSFER_SECONDS: (
            (Select("agent_xfer_time_total", scale=_US),),
            (sampled("agent_xfer_time_us", "sum", _US),),
        ),
        m.TRANSFERS: ((Select("agent_rx_requests_num_total"), Select("agent_tx_requests_num_total")),),
        m.TRANSFER_POST_SECONDS: (
            (Select("agent_xfer_post_time_total", scale=_US),),
            (sampled("agent_xfer_post_time_us", "sum", _US),),
        ),
        m.TRANSFER_FAILURES: any_of("agent_errors_total"),
        m.TELEMETRY_LOST: any_of("agent_telemetry_events_dropped_total"),
    },
    marks=("agent_tx_", "agent_rx_", "agent_xfer_"),
    default_port=9090,
    layer=True,
)
