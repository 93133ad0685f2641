"""Bytes and seconds of the messages between ranks: all-reduces of TP, dispatch and combine of EP."""

from __future__ import annotations

from kvdoctor.roofline.shape import Layout, ModelShape

# Activations travel as bf16; dispatch to experts as fp8 where the engine quantizes before sending.
_ACTIVATION_BYTES = 2
_DISPATCH_BYTES = 1


def message_bytes(shape: ModelShape, tokens: float) -> float:
    """Bytes of one all-reduce: tokens * H * 2."""
    return tokens * shape.hidden * _ACTIVATION_BYTES


def all_reduce_seconds(message: float, *, ranks: int, link: float, alpha: float = 0.0) -> float:
    """The faster of a ring, 2*(n-1)/n*m/link + 2*(n-1)*alpha, and one shot, (n-1)*m/link + alpha.

    `link` is bytes/s of one direction, `alpha` seconds a hop.
    """
    if ranks <= 1:
        return 0.0
    ring = 2 * (ranks - 1) / ranks * message / link + 2 * (ranks - 1) * alpha
    return min(ring, (ranks - 1) * message / link + alpha)


def all_reduce_count(shape: ModelShape) -> int:
    """Two a layer (after the mixer, after the FFN); one where a layer is only one of the two."""
    count = 0
    for layer in shape.layers:
        mixer = layer.cache is not None or layer.state is not None
        ffn = any(w.part in ("dense", "expert", "shared") for w in layer.weights)
        count += int(mixer) + int(ffn)
    return count


def tp_seconds(shape: ModelShape, *, tokens: float, layout: Layout, link: float, alpha: float = 0.0) -> float:
    """Seconds of all all-reduces of one pass of `tokens` tokens, on links of `link` bytes/s a direction."""
    message = message_bytes(shape, tokens)
    return all_reduce_count(shape) * all_reduce_seconds(
        message, ranks=layout.attention_tp, link=link, alpha=alpha
    )


def ep_seconds(shape: ModelShape, *, tokens: float, layout: Layout, link: float) -> float:
    """Seconds of dispatch and combine over all MoE layers: tokens * k * H * (1 + 2) bytes a rank.

    `tokens` are those of one rank; the share that stays local is taken off. 0 without expert parallelism.
    """
    ranks = layout.expert_shards if max(layout.ep, layout.dp_attention) > 1 else 1
    if ranks <= 1:
        return 0.0
    used = sum(layer.used for layer in shape.layers)
    sent = tokens * used * shape.hidden * (_DISPATCH_BYTES + _ACTIVATION_BYTES)
    return sent * (ranks - 1) / ranks / link
