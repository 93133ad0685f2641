"""Which kind of mixer each layer has: full, sliding or chunked attention, or a recurrent one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Keys, refusal

Kind = Literal["full", "window", "chunk", "mamba1", "mamba2", "deltanet", "kda", "lightning", "ffn", "moe"]


@dataclass(frozen=True, slots=True)
class Mixer:
    """The mixer of one layer; `span` is the window or the chunk in tokens."""

    kind: Kind
    span: int = 0


FULL = Mixer("full")
# The letters of `hybrid_override_pattern` (Nemotron-H) and the words of `layers_block_type`.
_LETTERS: dict[str, Kind] = {"M": "mamba2", "*": "full", "-": "ffn", "E": "moe"}
_WORDS: dict[str, Kind] = {"mamba": "mamba2", "attention": "full", "mlp": "ffn", "moe": "moe"}
# Llama 4: every 4th layer is global where `no_rope_layers` does not say.
_NO_ROPE_INTERVAL = 4
_RECURRENT: dict[str, Kind] = {
    "qwen3_next": "deltanet",
    "qwen3_5": "deltanet",
    "qwen3_5_text": "deltanet",
    "qwen3_5_moe": "deltanet",
    "qwen3_5_moe_text": "deltanet",
    "minimax": "lightning",
    "minimax_text_01": "lightning",
    "granitemoehybrid": "mamba2",
    "bamba": "mamba2",
    "jamba": "mamba1",
    "mamba": "mamba1",
    "falcon_mamba": "mamba1",
    "mamba2": "mamba2",
}


def mixers(keys: Keys, name: str, family: Family, layers: int) -> list[Mixer]:
    """The mixer of every layer. Raises KvdoctorError naming the key that is not understood."""
    if name == "nemotron_h":
        return _nemotron(keys, layers)
    if name in ("kimi_linear", "kimi_k3"):
        return _kimi(keys, layers)
    if name in ("llama4", "llama4_text"):
        return _llama4(keys, layers)
    if name in ("mimo_v2", "mimo_v2_flash"):
        return _mimo(keys, layers)
    if name in ("mamba", "falcon_mamba", "mamba2"):
        return [Mixer(_RECURRENT[name])] * layers
    if (period := keys.optional("attn_layer_period")) and name == "jamba":
        offset = keys.count("attn_layer_offset", default=0)
        return [FULL if i % period == offset else Mixer("mamba1") for i in range(layers)]
    if (places := keys.items("attn_layer_indices")) is not None:
        return [FULL if i in places else Mixer("mamba2") for i in range(layers)]
    return _listed(keys, name, layers) or _by_window(keys, family, layers)


def window(keys: Keys) -> int:
    """The sliding window in tokens; 0 where it is switched off or no shorter than the longest context."""
    span = keys.optional("sliding_window", "sliding_window_size") or 0
    longest = keys.optional("max_position_embeddings", "n_positions") or 0
    if keys.raw("use_sliding_window") is False or (longest and span >= longest):
        return 0
    return span


def _nemotron(keys: Keys, layers: int) -> list[Mixer]:
    """One letter, or one word, a layer."""
    pattern = keys.text("hybrid_override_pattern")
    kinds = [_LETTERS.get(letter) for letter in pattern]
    source = "hybrid_override_pattern"
    if not pattern:
        source = "layers_block_type"
        kinds = [_WORDS.get(str(word)) for word in keys.items("layers_block_type") or []]
    if len(kinds) != layers or None in kinds:
        raise refusal(source, f"does not describe {layers} layers in the letters M * - E")
    return [Mixer(kind) for kind in kinds if kind]


def _kimi(keys: Keys, layers: int) -> list[Mixer]:
    """`full_attn_layers` counts from 1."""
    full = keys.section("linear_attn_config").get("full_attn_layers")
    if not isinstance(full, list):
        raise refusal("linear_attn_config", "has no full_attn_layers")
    return [FULL if i + 1 in full else Mixer("kda") for i in range(layers)]


def _llama4(keys: Keys, layers: int) -> list[Mixer]:
    """Layers with rotary embedding see their chunk only; those without are global."""
    span = keys.optional("attention_chunk_size") or 0
    rope = keys.per_layer("no_rope_layers", layers)
    interval = keys.count("no_rope_layer_interval", default=_NO_ROPE_INTERVAL)
    flags = rope or [int((i + 1) % interval != 0) for i in range(layers)]
    return [Mixer("chunk", span) if flag and span else FULL for flag in flags]


def _mimo(keys: Keys, layers: int) -> list[Mixer]:
    """1 in `hybrid_layer_pattern` slides."""
    flags = keys.per_layer("hybrid_layer_pattern", layers)
    if flags is None:
        raise refusal("hybrid_layer_pattern", "is missing")
    span = keys.positive("sliding_window", "sliding_window_size")
    return [Mixer("window", span) if flag else FULL for flag in flags]


def _listed(keys: Keys, name: str, layers: int) -> list[Mixer] | None:
    """Layers by `layer_types`, `attn_type_list` or `full_attention_interval`; None where no key lists them."""
    if kinds := keys.per_layer("layer_types", layers):
        return [_typed(keys, name, str(kind)) for kind in kinds]
    recurrent = _RECURRENT.get(name)
    if flags := keys.per_layer("attn_type_list", layers):
        if 0 in flags and recurrent is None:
            raise refusal("attn_type_list", "has linear layers that this family is not known to have")
        return [FULL if flag else Mixer(recurrent or "full") for flag in flags]
    if recurrent == "deltanet":
        interval = keys.count("full_attention_interval", default=4)
        return [FULL if (i + 1) % interval == 0 else Mixer(recurrent) for i in range(layers)]
    if recurrent:
        raise refusal("layer_types", "is missing")
    return None


def _typed(keys: Keys, name: str, kind: str) -> Mixer:
    """One entry of `layer_types`."""
    if kind in ("full_attention", "attention", "global_attention"):
        return FULL
    if kind in ("sliding_attention", "local_attention"):
        span = window(keys)
        if not span and not keys.optional("sliding_window"):
            raise refusal("sliding_window", "is missing though `layer_types` has sliding layers")
        return Mixer("window", span) if span else FULL
    if kind == "chunked_attention":
        return Mixer("chunk", keys.positive("attention_chunk_size"))
    if kind in ("linear_attention", "mamba", "linear") and name in _RECURRENT:
        return Mixer(_RECURRENT[name])
    raise refusal("layer_types", f"has the value {kind!r}")


def _by_window(keys: Keys, family: Family, layers: int) -> list[Mixer]:
    """Layers by `sliding_window` and the rule of the family."""
    span = window(keys)
    if not span:
        return [FULL] * layers
    slide = Mixer("window", span)
    rule = keys.raw("sliding_window_pattern")
    if isinstance(rule, str) and rule:
        return [FULL if rule[i % len(rule)] == "G" else slide for i in range(layers)]
    if isinstance(rule, int) or family.slides == "pattern":
        every = rule if isinstance(rule, int) else family.pattern
        if every <= 0:
            raise refusal("layer_types", "is missing though `sliding_window` is set")
        return [FULL if (i + 1) % every == 0 else slide for i in range(layers)]
    if family.slides == "even":
        return [slide if i % 2 == 0 else FULL for i in range(layers)]
    if family.slides == "no":
        raise refusal("sliding_window", "is set, and which layers of this family slide is not known")
    first = keys.count("max_window_layers", default=0) if keys.flag("use_sliding_window") else 0
    return [slide if i >= first else FULL for i in range(layers)]
