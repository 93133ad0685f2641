"""One file a cause: a pure function from what was seen to Findings, in the order of triage."""

from __future__ import annotations

from collections.abc import Callable

from kvdoctor.case import Case
from kvdoctor.causes import (
    bandwidth,
    capacity,
    compute,
    decode_stall,
    device,
    eviction,
    external,
    hit_rate,
    host,
    network,
    offload,
    queueing,
)
from kvdoctor.model import Finding

Cause = Callable[[Case], tuple[Finding, ...]]

CAUSES: tuple[Cause, ...] = (
    bandwidth.check,
    capacity.check,
    eviction.check,
    offload.check,
    decode_stall.check,
    hit_rate.check,
    network.check,
    compute.check,
    host.check,
    queueing.check,
    device.check,
    external.check,
)
"""Bandwidth first: whether decode reads what HBM can deliver is asked before anything is moved or tuned."""
