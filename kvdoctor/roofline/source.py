"""From what a person calls a model to its shape: a config, a preset, and the formats that were asked for."""

from __future__ import annotations

from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.checkpoint import load_shape
from kvdoctor.roofline.presets import preset
from kvdoctor.roofline.quantity import size_bytes
from kvdoctor.roofline.quantization import reformatted, with_stored_bytes
from kvdoctor.roofline.shape import ModelShape

_PARTS = ("experts", "head", "embedding")


def shape_of(model: str) -> ModelShape:
    """The shape of a config.json, of a directory with one, or of a preset by name.

    Raises KvdoctorError naming the key that is not understood, or near names.
    """
    path = Path(model).expanduser()
    if path.exists() or model.endswith(".json") or model.startswith((".", "~", "/")):
        return load_shape(path)
    return preset(model)


def with_weights(shape: ModelShape, text: str | None) -> ModelShape:
    """The shape with the weights of `--weights`.

    `fp8` for all that quantizes; `int8,head=int8` and `bf16,experts=mxfp4` name parts of their own; a size such
    as `4.58GiB` is that of the file, spread evenly. Raises KvdoctorError for what is not known.
    """
    if not text:
        return shape
    first, *rest = (part.strip() for part in text.split(","))
    parts = dict(_part(entry) for entry in ([first, *rest] if "=" in first else rest))
    main = None if "=" in first else first
    if main and main[0].isdigit() and main.lower().endswith("b"):
        if parts:
            raise KvdoctorError("a file's size leaves no room for formats of parts", "give one of both")
        return with_stored_bytes(shape, size_bytes(main), f"a file of {main}")
    return reformatted(
        shape,
        weights=main,
        experts=parts.get("experts"),
        head=parts.get("head"),
        embedding=parts.get("embedding"),
    )


def _part(entry: str) -> tuple[str, str]:
    """One `part=format`."""
    name, _, form = entry.partition("=")
    if name.strip() not in _PARTS or not form.strip():
        raise KvdoctorError(
            f"{entry!r} names no part of the weights", f"write FORMAT or one of {', '.join(_PARTS)}=FORMAT"
        )
    return name.strip(), form.strip()
