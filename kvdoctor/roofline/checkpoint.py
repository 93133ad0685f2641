"""Load a model from disk: its config, its side file, and the bytes that its safetensors really hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.quantization import with_checkpoint_bytes
from kvdoctor.roofline.shape import ModelShape
from kvdoctor.roofline.weights import stored_bytes

_SIDE = "hf_quant_config.json"
_INDEX = "model.safetensors.index.json"
# A safetensors header longer than this is not one.
_MOST_HEADER = 100 * 2**20
_TOWER = re.compile(r"(?:^|\.)(?:vision|visual|audio|multi_modal|mm_projector|embed_vision|embed_audio)")
_DRAFT = re.compile(r"(?:^|\.)mtp")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of a checkpoint."""

    language: float
    """Of the language model, without draft layers and towers where the names tell them apart."""
    basis: str


def load_config(path: str | Path) -> tuple[dict[str, object], dict[str, object] | None]:
    """Read a config file, or the `config.json` of a directory, and the side file beside it.

    `NAME.hf_quant_config.json` beside `NAME.json` counts as well. `Infinity` and `NaN` parse. Raises
    KvdoctorError for what is missing, unreadable or not a JSON object.
    """
    file = config_file(path)
    config = _object(file)
    for side in (file.with_name(f"{file.stem}.{_SIDE}"), file.with_name(_SIDE)):
        if side.is_file() and (file.name == "config.json" or side.name != _SIDE):
            return config, _object(side)
    return config, None


def config_file(path: str | Path) -> Path:
    """The config file that a path means; raises KvdoctorError where there is none."""
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / "config.json"
    if not file.is_file():
        raise KvdoctorError(
            f"there is no config at {file}", "give a config.json, its directory, or a preset name"
        )
    return file


def _object(file: Path) -> dict[str, object]:
    """A JSON object of a file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise KvdoctorError(f"{file} cannot be read as JSON: {error}", "check the file") from error
    if not isinstance(found, dict):
        raise KvdoctorError(f"{file} is not a JSON object", "give the model's config.json")
    return found


def model_name(file: Path) -> str:
    """A name for people: the file's own, else that of its directory; hub cache folders give the model's."""
    if file.name != "config.json":
        return file.stem
    for part in reversed(file.resolve().parts):
        if part.startswith("models--"):
            return part.split("--")[-1]
    return file.resolve().parent.name


def load_shape(path: str | Path) -> ModelShape:
    """The shape of a model on disk. Bytes found in its checkpoint beat the formula, and `basis` says so."""
    file = config_file(path)
    config, side = load_config(file)
    shape = shape_from_config(config, side=side, name=model_name(file))
    stored = stored_of(file.parent, shape) if file.name == "config.json" else None
    return with_checkpoint_bytes(shape, stored.language, stored.basis) if stored else shape


def stored_of(folder: Path, shape: ModelShape) -> Stored | None:
    """The bytes of the safetensors in a folder: from their headers, else from the index; None without."""
    index_file = folder / _INDEX
    index = _object(index_file) if index_file.is_file() else {}
    names = index.get("weight_map")
    shards = {str(name) for name in names.values()} if isinstance(names, Mapping) else set()
    files = sorted(folder.glob("*.safetensors"))
    if files and shards <= {file.name for file in files}:
        wanted = [file for file in files if not shards or file.name in shards]
        return Stored(_language_bytes(_headers(wanted), len(shape.layers)), "headers of the safetensors")
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(total, (int, float)) or total <= 0:
        return None
    listed = [str(name) for name in names] if isinstance(names, Mapping) else []
    return Stored(float(total) - _beside(shape, listed), f"total_size of {_INDEX}")


def _headers(files: Iterable[Path]) -> dict[str, int]:
    """Bytes of every tensor, by name, from the headers alone."""
    found: dict[str, int] = {}
    for file in files:
        try:
            with file.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                if not 0 < size <= _MOST_HEADER:
                    raise ValueError(f"a header of {size} bytes")
                header = json.loads(stream.read(size))
            for name, entry in header.items():
                if name != "__metadata__":
                    start, end = entry["data_offsets"]
                    found[name] = end - start
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise KvdoctorError(
                f"the header of {file} cannot be read: {error}", "download it again"
            ) from error
    return found


def _is_draft(name: str, layers: int) -> bool:
    """Whether a tensor belongs to a draft layer: named so, or numbered past the model's own."""
    match = _LAYER.search(name)
    return bool(_DRAFT.search(name)) or bool(match and int(match[1]) >= layers and not _TOWER.search(name))


def _language_bytes(sizes: Mapping[str, int], layers: int) -> float:
    """Bytes of the tensors that are neither tower nor draft."""
    return float(
        sum(n for name, n in sizes.items() if not _TOWER.search(name) and not _is_draft(name, layers))
    )


def _beside(shape: ModelShape, names: list[str]) -> float:
    """Estimated bytes of draft layers and towers, where the index lists them."""
    draft = any(_is_draft(name, len(shape.layers)) for name in names)
    tower = any(_TOWER.search(name) for name in names)
    total = 2.0 * shape.tower_params if tower else 0.0
    return total + (sum(stored_bytes(w) for layer in shape.draft for w in layer.weights) if draft else 0.0)
