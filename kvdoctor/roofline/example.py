"""The worked example that this command grew from: its rounded figures beside the exact ones."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline import kv
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.shape import Layout, ModelShape
from kvdoctor.roofline.tiers import transfer_seconds
from kvdoctor.units import GB, GIB, duration

# 7 billion parameters of two bytes; the example calls them 14 GiB.
_PARAMS = 7e9
_BYTES = 2
_WRITTEN_WEIGHTS = 14 * GIB
# 32 sequences of 4,096 tokens, or one of 131,072: the same bytes of KV.
_BATCH, _CONTEXT = 32, 4096
# A piece of prefix that comes back from a tier.
_PIECE = 4 * GIB
_TIERS = (
    ("HBM", (3e12,), "1 to 2 ms"),
    ("CPU memory", (26e9, 50e9), "10 to 180 ms"),
    ("SSD", (3e9, 7e9), "0.6 to 1.5 s"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    what: str
    written: str
    exact: str


def _model(kv_heads: int) -> ModelShape:
    """32 layers with 32 query heads of 128, and as many KV heads as asked."""
    return shape_from_config(
        {
            "model_type": "llama",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": kv_heads,
            "intermediate_size": 11008,
            "vocab_size": 32000,
            "torch_dtype": "float16",
        }
    )


def kv_bytes(kv_heads: int) -> float:
    """Bytes of KV of 131,072 tokens."""
    return kv.sequence_bytes(_model(kv_heads), tokens=_BATCH * _CONTEXT, layout=Layout())


def _both(size: float) -> str:
    """Bytes in both units, to the second decimal: rounding is the point here."""
    return f"{size / GIB:.2f} GiB = {size / GB:.2f} GB"


def _step(size: float, rate: float) -> str:
    """A step over `size` bytes, and its rate."""
    seconds = transfer_seconds(size, rate=rate)
    return f"{duration(seconds)}, {1 / seconds:.1f} tok/s"


def rows() -> tuple[Row, ...]:
    """Every figure of the example, as it is written and as it comes out."""
    gqa, mha, weights = kv_bytes(8), kv_bytes(32), _PARAMS * _BYTES
    read, exact = _WRITTEN_WEIGHTS + gqa, weights + gqa
    found = [
        Row("weights, 7 B in FP16", "~14 GiB", _both(weights)),
        Row("KV, GQA with 8 KV heads", "16 GiB", _both(gqa)),
        Row("KV, MHA with 32 KV heads", "64 GiB", _both(mha)),
        Row("read for one token", "30 GiB", _both(exact)),
        Row("30 GiB over 3 TB/s", "~10 ms, ~100 tok/s", _step(read, 3e12)),
        Row("30 GiB over 1.8 TB/s", "~60 tok/s", _step(read, 1.8e12)),
        Row("the exact bytes over 3 TB/s", "", _step(exact, 3e12)),
        Row("the exact bytes over 1.8 TB/s", "", _step(exact, 1.8e12)),
    ]
    for name, rates, written in _TIERS:
        times = sorted(transfer_seconds(_PIECE, rate=rate) for rate in rates)
        found.append(Row(f"4 GiB from {name}", written, " to ".join(dict.fromkeys(map(duration, times)))))
    return tuple(found)


NOTES = (
    "7 B parameters of 2 bytes are 14.0 GB, not 14 GiB: the written sum adds GB to GiB.",
    "The 16 GiB of KV are read for one token only at batch 1 and 131,072 tokens. At batch 32 and 4,096 tokens "
    "the same step yields 32 tokens: a total of 32 times the rate.",
)
