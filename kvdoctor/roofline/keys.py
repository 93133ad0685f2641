"""Read a model's config by key, and say which key is missing or not understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError

Json = Mapping[str, object]
# The text part of a model with towers, in order of trust.
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# No size in a config comes near this; larger ones are typing errors.
_MOST = 10**10
# What the top level may say for the text part.
_INHERITED = (
    "quantization_config",
    "tie_word_embeddings",
    "torch_dtype",
    "dtype",
    "architectures",
    "model_type",
)


def refusal(key: str, reason: str) -> KvdoctorError:
    """The error for a config that is not understood, naming the key."""
    return KvdoctorError(
        f"shape not understood: `{key}` {reason}",
        "give a config of a family that kvdoctor roofline knows, or the nearest preset by name",
    )


@dataclass(frozen=True, slots=True)
class Keys:
    """The text part of a config; every reader takes several spellings and the first that is not null wins."""

    values: Json

    def raw(self, *names: str) -> object:
        """The first value that is present and not null, else None."""
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        return None

    def optional(self, *names: str) -> int | None:
        """A whole number, or None where no key has one. Raises KvdoctorError for a value that is no count."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, (list, tuple)):
                raise refusal(name, "is a list of per-layer values that is not understood")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
                raise refusal(name, f"is {value!r}, not a number")
            if not 0 <= value <= _MOST or int(value) != value:
                raise refusal(name, f"is {value!r}, not a count")
            return int(value)
        return None

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number; raises KvdoctorError naming the key where there is none and no default."""
        value = self.optional(*names)
        if value is not None:
            return value
        if default is None:
            raise refusal(names[0], "is missing")
        return default

    def positive(self, *names: str) -> int:
        """A count above zero."""
        value = self.count(*names)
        if value == 0:
            raise refusal(names[0], "is 0")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean; the default where it is absent or null."""
        value = self.values.get(name)
        return default if value is None else bool(value)

    def text(self, *names: str, default: str = "") -> str:
        """A string; the default where it is absent or null."""
        value = self.raw(*names)
        return default if value is None else str(value)

    def items(self, name: str) -> list[object] | None:
        """A list, or None where it is absent, null or empty."""
        value = self.values.get(name)
        if value is None or isinstance(value, str) or not isinstance(value, Sequence) or not value:
            return None
        return list(value)

    def section(self, name: str) -> Json:
        """A mapping; empty where it is absent or null."""
        value = self.values.get(name)
        return value if isinstance(value, Mapping) else {}

    def per_layer(self, name: str, layers: int) -> list[object] | None:
        """A list with one entry a layer (longer ones, which draft layers extend, are cut)."""
        entries = self.items(name)
        if entries is None:
            return None
        if len(entries) < layers:
            raise refusal(name, f"has {len(entries)} entries for {layers} layers")
        return entries[:layers]


def text_part(config: Json) -> Keys:
    """The keys of the language model: towers never leak in, and some top-level keys still apply."""
    inner = config
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        inner = config = thinker
    for name in _TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, Mapping) and part:
            inner = part
            break
    merged = dict(inner)
    for name in _INHERITED:
        if merged.get(name) is None and config.get(name) is not None:
            merged[name] = config[name]
    return Keys(merged)
