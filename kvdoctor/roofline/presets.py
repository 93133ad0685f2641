"""The shapes of well-known models, shipped as data and found by a forgiving name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.quantization import reformatted
from kvdoctor.roofline.shape import ModelShape

# Tunings of the same shape.
_SUFFIX = re.compile(r"[-_ ](?:instruct|chat|base|it|hf|bf16|fp16|preview|thinking|\d{4})$")
_INNER = re.compile(r"[-_ ](?:instruct|chat)(?=[-_ ]|$)")
_PREFIX = re.compile(r"^(?:meta-|nvidia-)")
# Quantized builds that carry the format in their name; what stays at 16 bits is then the usual.
_FORMATS = (
    (re.compile(r"[-_](?:fp8(?:-(?:dynamic|block))?|w8a8-fp8)$"), "fp8"),
    (re.compile(r"[-_](?:nvfp4|fp4)$"), "nvfp4"),
    (re.compile(r"[-_](?:quantized\.)?w8a8$"), "int8"),
    (re.compile(r"[-_](?:quantized\.)?w4a16$"), "int4-sym-g128"),
    (re.compile(r"[-_](?:awq(?:-int4)?|gptq(?:-int4)?|int4)$"), "int4-g128"),
    (re.compile(r"[-_](?:gptq-int8|int8)$"), "int8-weight-only"),
)
# Other names of the same shape.
_ALIASES = {
    "llama-3.3-70b": "llama-3.1-70b",
    "llama-3-8b-8192": "llama-3-8b",
    "deepseek-v3.1": "deepseek-v3",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "qwen2-72b": "qwen2.5-72b",
    "qwq-32b": "qwen2.5-32b",
    "qwen3.8-27b": "qwen3.5-27b",
    "qwen3-coder-next": "qwen3-next-80b-a3b",
    "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2.5-coder-32b": "qwen2.5-32b",
    "glm-4.7": "glm-4.6",
}


@lru_cache(maxsize=1)
def configs() -> dict[str, dict[str, object]]:
    """Every shipped config, by name: only the keys that shape bytes and FLOPs."""
    found = json.loads((Path(__file__).parent / "presets.json").read_text(encoding="utf-8"))
    return {str(name): dict(config) for name, config in found.items()}


def preset_names() -> tuple[str, ...]:
    """Names of all presets."""
    return tuple(configs())


def _bare(name: str) -> str:
    """A name without organization, case and the words of a tuning."""
    text = _PREFIX.sub("", name.strip().lower().rsplit("/", maxsplit=1)[-1].replace("_", "-"))
    text = _INNER.sub("", text)
    while _SUFFIX.search(text):
        text = _SUFFIX.sub("", text)
    return text


def _known(wanted: str) -> str | None:
    """The name of the preset that a bare name means, or None; the start of a single name is enough."""
    table = {_bare(known): known for known in configs()}
    found = table.get(_ALIASES.get(wanted, wanted))
    longer = [known for bare, known in table.items() if bare.startswith(f"{wanted}-")]
    return found or (longer[0] if len(longer) == 1 else None)


def preset_config(name: str) -> dict[str, object]:
    """The config of a preset. Raises KvdoctorError with near names where none is known."""
    known = _known(_bare(name))
    if known:
        return configs()[known]
    table = {_bare(one): one for one in configs()}
    near = get_close_matches(_bare(name), table, n=4, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(table[one] for one in near)}?"
        if near
        else "give a config.json or its directory"
    )
    raise KvdoctorError(f"there is no config and no preset called {name!r}", hint)


def preset(name: str) -> ModelShape:
    """The shape of a well-known model: `Llama-3.1-8B`, `meta-llama/Llama-3.1-8B-Instruct`, `qwen3-32b-awq`.

    A format at the end of a name that is not shipped itself is applied, with a warning. Raises KvdoctorError
    with near names where none is known.
    """
    wanted = _bare(name)
    if known := _known(wanted):
        return shape_from_config(configs()[known], name=known)
    for pattern, form in _FORMATS:
        plain = pattern.sub("", wanted)
        if plain != wanted and (known := _known(_bare(plain))):
            shape = reformatted(shape_from_config(configs()[known], name=name), weights=form)
            note = f"weights taken as {form} from the name; embedding, head, norms and routers at 16 bits"
            return replace(shape, warnings=(*shape.warnings, note), basis=f"formula, {form} from the name")
    return shape_from_config(preset_config(name), name=name)
