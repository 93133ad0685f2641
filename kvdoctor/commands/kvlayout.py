"""Sizes of KV blocks as a model's layout has them, for the probes that move blocks."""

from __future__ import annotations

from collections.abc import Sequence


def block_sizes(given: Sequence[str], *, model: str | None, tp: int) -> tuple[int, ...]:
    """Return the sizes that were given, else those of the model: one piece of a layer, and all layers of a block.

    Empty without either; KvdoctorError for a size or a model that is not understood.
    """
    from kvdoctor.roofline.quantity import size_bytes

    if given or model is None:
        return tuple(int(size_bytes(text)) for text in given)
    from kvdoctor.roofline import kv
    from kvdoctor.roofline.shape import KvStorage, Layout
    from kvdoctor.roofline.source import shape_of
    from kvdoctor.roofline.tiers import piece_bytes

    shape, layout, storage = shape_of(model), Layout(tp=tp), KvStorage()
    piece = int(piece_bytes(shape, layout=layout, storage=storage))
    whole = int(kv.growth_bytes(shape, layout=layout, storage=storage) * storage.block_size)
    return tuple(sorted({size for size in (piece, whole) if size > 0}))
