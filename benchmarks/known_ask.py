"""One question to `kvdoctor roofline` and its answer in the JSON contract; the only place that knows how it is asked.

`ask` works out the contract's fields through the Python API. Asking the command instead means replacing `ask`:
the model and the options already have the command line's spelling.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvdoctor.roofline import kv, notes, pool, prefill, weights
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape
from kvdoctor.roofline.source import shape_of, with_weights
from kvdoctor.roofline.step import Load, Machine, decode_step, step_bytes

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A model and the options of the command line, without their dashes."""

    model: str
    options: Json = field(default_factory=dict)

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option, or a default."""
        return self.options.get(name, default)


def config_file(config: Json, folder: Path, name: str) -> str:
    """Write a config where no shipped one fits, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def scratch() -> Path:
    """A folder for configs of this run."""
    return Path(tempfile.mkdtemp(prefix="known-answers-"))


def ask(query: Query) -> Json:
    """The answer of the roofline. Raises KvdoctorError where it refuses."""
    shape = with_weights(shape_of(query.model), query.option("weights"))
    layout = Layout(
        tp=query.option("tp", 1),
        pp=query.option("pp", 1),
        dp_attention=query.option("dp-attention", 1),
        dcp=query.option("dcp", 1),
    )
    storage = KvStorage(
        dtype=query.option("kv-dtype"),
        index_dtype=query.option("index-dtype", "fp8"),
        latent=query.option("latent", "plain"),
        windows=query.option("windows", "exact"),
        in_flight=query.option("in-flight", 0),
        block_size=query.option("block-size", 16),
        state_dtype=query.option("state-dtype"),
        draft=query.option("draft-kv", False),
    )
    context = query.option("context", 4096)
    held = weights.resident(shape, layout=layout)
    return {
        "parameters": {"total": weights.parameters(shape).total, "active": weights.parameters(shape).active},
        "model": {"layers": len(shape.layers), "kv_layers": kv.kv_layers(shape.layers)},
        "per_rank": {
            "weight_bytes": held.total,
            "kv_bytes_per_token": kv.growth_bytes(shape, layout=layout, storage=storage),
            "state_bytes_per_sequence": kv.state_bytes(shape, layout=layout, storage=storage),
        },
        "kv_bytes_per_sequence": kv.sequence_bytes(shape, tokens=context, layout=layout, storage=storage),
        "pool": _pool(query, shape, layout, storage, context),
        "decode": _decode(query, shape, layout, storage, context),
        "prefill": _prefill(query, shape, layout, storage, context),
        "warnings": list(notes.notes(shape, layout=layout, storage=storage)),
    }


def _pool(query: Query, shape: ModelShape, layout: Layout, storage: KvStorage, context: int) -> Json | None:
    """The pool of `--pool` GiB."""
    size = query.option("pool")
    if size is None:
        return None
    found = pool.fit(shape, pool_bytes=size * 2**30, context=context, layout=layout, storage=storage)
    longest = pool.longest_sequence(shape, pool_bytes=size * 2**30, layout=layout, storage=storage)
    return {
        "bytes": found.bytes,
        "blocks": found.blocks,
        "tokens": found.tokens,
        "sequences": found.sequences,
        "concurrency": found.concurrency,
        "longest_sequence": longest,
    }


def _decode(query: Query, shape: ModelShape, layout: Layout, storage: KvStorage, context: float) -> Json:
    """The decode step, with rates where `--bandwidth` (GB/s) is given."""
    load = Load(query.option("batch", 1.0), context)
    moved = step_bytes(shape, load, layout, storage)
    found: Json = {"bytes": {"weights": moved.weights, "kv": moved.kv, "state": moved.state}}
    if query.option("bandwidth"):
        peak = query.option("peak")
        machine = Machine(query.option("bandwidth") * 1e9, peak * 1e12 if peak else None)
        step = decode_step(shape, machine, load, layout, storage)
        found |= {
            "flops": step.flops,
            "step_seconds_floor": step.seconds_floor,
            "tokens_per_s_ceiling": step.tokens_per_s_ceiling,
            "tokens_per_s_expected": list(step.tokens_per_s_expected),
            "limit": step.limit,
        }
    return found


def _prefill(query: Query, shape: ModelShape, layout: Layout, storage: KvStorage, context: float) -> Json:
    """The prefill of the context, with its floor where `--peak` (TFLOPS) is given."""
    work = prefill.flops(shape, new=context)
    peak, bandwidth = query.option("peak"), query.option("bandwidth")
    if not peak:
        return {"flops": work, "seconds_floor": None}
    floor = prefill.floor(
        shape,
        new=context,
        cached=0,
        layout=layout,
        bandwidth=(bandwidth or 1e9) * 1e9,
        peak=peak * 1e12,
        storage=storage,
    )
    return {"flops": work, "seconds_floor": floor.seconds}
