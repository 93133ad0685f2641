"""`transformers serve` and plain generation loops: nothing at /metrics, so the host alone tells of them."""

from __future__ import annotations

from kvdoctor.engines.engine import Engine

ENGINE = Engine(
    name="transformers",
    prefixes=(),
    signals={},
    default_port=8000,
    metrics_path="",
)
