"""Give weights their formats: those of a quantized checkpoint, or others as a what-if."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.formats import weight_format
from kvdoctor.roofline.scheme import Scheme
from kvdoctor.roofline.shape import Layer, ModelShape, Weight


def quantized(layers: tuple[Layer, ...], scheme: Scheme, dtype: str, first: int = 0) -> tuple[Layer, ...]:
    """The layers with every weight in the format that the scheme gives it."""
    cache: dict[tuple[int, tuple[str, ...]], Layer] = {}
    found = []
    for index, layer in enumerate(layers, first):
        forms = tuple(scheme.format_of(w, f"{index}.{w.module}", dtype) for w in layer.weights)
        key = (id(layer), forms)
        if key not in cache:
            pairs = zip(layer.weights, forms, strict=True)
            cache[key] = replace(layer, weights=tuple(replace(w, format=f) for w, f in pairs))
        found.append(cache[key])
    return tuple(found)


def scheme_applied(shape: ModelShape, scheme: Scheme) -> ModelShape:
    """The shape of a quantized checkpoint: every weight in the format of the scheme."""
    kept = any(entry.startswith("mtp") for entry in scheme.keep.entries)
    count = len(shape.layers)
    outer = tuple(
        replace(w, format=scheme.head) if scheme.head and w.part == "head" else w for w in shape.outer
    )
    forms = [form for _, form in scheme.rules]
    return replace(
        shape,
        layers=quantized(shape.layers, scheme, shape.dtype),
        draft=shape.draft if kept else quantized(shape.draft, scheme, shape.dtype, count),
        outer=outer,
        weight_format=scheme.format or (forms[0] if forms else shape.dtype),
    )


def reformatted(
    shape: ModelShape,
    *,
    weights: str | None = None,
    experts: str | None = None,
    head: str | None = None,
    embedding: str | None = None,
) -> ModelShape:
    """The same model with other formats: `weights` for all that quantizes, `experts` and `head` beyond it.

    Norms, routers and convolutions stay as they are. Raises KvdoctorError for a format that is not known.
    """
    for name in (weights, experts, head, embedding):
        if name is not None:
            weight_format(name)
    outer = {"head": head, "embedding": embedding}

    def change(weight: Weight) -> Weight:
        if weight.part in outer:
            return replace(weight, format=outer[weight.part] or weight.format)
        if not weight.quantizable:
            return weight
        wanted = (experts if weight.part == "expert" else None) or weights
        return replace(weight, format=wanted or weight.format)

    return _mapped(shape, change, weights or shape.weight_format, shape.basis)


def with_stored_bytes(shape: ModelShape, total: float, basis: str) -> ModelShape:
    """The same model with all weights at one rate, so that they add up to `total` bytes (a file's size)."""
    params = sum(w.params for w in all_weights(shape))
    if total <= 0 or not 0.05 < total / params < 8:
        raise KvdoctorError(
            f"{total:.4g} bytes cannot hold the {params / 1e9:.3g} billion parameters of {shape.name}",
            "check the size of the weights and the model",
        )
    form = f"bpw:{total / params!r}"
    return _mapped(shape, lambda weight: replace(weight, format=form), form, basis)


def with_checkpoint_bytes(shape: ModelShape, total: float, basis: str) -> ModelShape:
    """The same model with its quantized weights at the rate that makes everything add up to `total` bytes.

    What the scheme leaves at the model's dtype keeps it. Where nothing is quantized all weights share the rate.
    """
    plain = weight_format(shape.dtype).bytes_per_weight
    weights = all_weights(shape)
    sizes = [(w, weight_format(w.format)) for w in weights]
    fixed = sum(f.size(w.inputs, w.outputs, w.copies) for w, f in sizes if f.bytes_per_weight == plain)
    params = sum(w.params for w, f in sizes if f.bytes_per_weight != plain)
    if not params:
        return with_stored_bytes(shape, total, basis)
    if not 0.05 < (total - fixed) / params < 8:
        raise KvdoctorError(
            f"the checkpoint holds {total:.4g} bytes, which do not fit the shape of {shape.name}",
            "check that config.json and the checkpoint are of the same model",
        )
    form = f"bpw:{(total - fixed) / params!r}"

    def change(weight: Weight) -> Weight:
        same = weight_format(weight.format).bytes_per_weight == plain
        return weight if same else replace(weight, format=form)

    return replace(_mapped(shape, change, shape.weight_format, basis), draft=shape.draft)


def all_weights(shape: ModelShape) -> list[Weight]:
    """Every weight of the plain model: layers and what is outside of them, without draft and towers."""
    return [w for layer in shape.layers for w in layer.weights] + list(shape.outer)


def _mapped(shape: ModelShape, change: Callable[[Weight], Weight], form: str, basis: str) -> ModelShape:
    """The shape with every weight changed; equal layers stay the same object."""
    done: dict[int, Layer] = {}

    def layer_of(layer: Layer) -> Layer:
        if id(layer) not in done:
            done[id(layer)] = replace(layer, weights=tuple(change(w) for w in layer.weights))
        return done[id(layer)]

    return replace(
        shape,
        layers=tuple(layer_of(layer) for layer in shape.layers),
        draft=tuple(layer_of(layer) for layer in shape.draft),
        outer=tuple(change(w) for w in shape.outer),
        weight_format=form,
        basis=basis,
    )
