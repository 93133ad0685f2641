"""What a checkpoint holds beside the language model: draft (MTP) layers and vision or audio towers."""

from __future__ import annotations

from collections.abc import Mapping

from kvdoctor.roofline.keys import Json, Keys
from kvdoctor.roofline.shape import Layer, Weight

_TOWERS = ("vision_config", "audio_config", "visual", "vision_tower_config")
_DEPTH = ("num_hidden_layers", "depth", "vt_num_hidden_layers", "conf_num_hidden_layers", "encoder_layers")
_WIDTH = ("hidden_size", "vt_hidden_size", "embed_dim", "d_model")
_FFN = ("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim")


def draft_count(keys: Keys) -> int:
    """Draft layers that ship with the checkpoint."""
    count = keys.count("num_nextn_predict_layers", "mtp_num_hidden_layers", default=0)
    if not count and keys.flag("use_mtp"):
        count = keys.count("num_mtp_modules", default=0) * keys.count("mtp_transformer_layers", default=1)
    return count


def draft_layers(keys: Keys, layers: tuple[Layer, ...], hidden: int) -> tuple[Layer, ...]:
    """Each is the last attention layer of the model again, with a projection of two hidden vectors to one."""
    base = next((layer for layer in reversed(layers) if layer.cache), None)
    count = draft_count(keys)
    if base is None or not 0 < count <= len(layers):
        return ()
    join = Weight("eh_proj", "dense", 2 * hidden, hidden, split="replicated")
    layer = Layer(base.kind, (*base.weights, join), base.cache, None, base.experts, base.used)
    return (layer,) * count


def tower_params(config: Json) -> int:
    """A rough count of the towers' parameters from their few sizes: 4*h*h + 2*h*i a layer and a projector."""
    total = 0
    thinker = config.get("thinker_config")
    top = thinker if isinstance(thinker, Mapping) else config
    for name in _TOWERS:
        part = top.get(name)
        if not isinstance(part, Mapping):
            continue
        keys = Keys(part)
        depth, width = keys.optional(*_DEPTH) or 0, keys.optional(*_WIDTH) or 0
        ffn = keys.optional(*_FFN) or 4 * width
        out = keys.optional("out_hidden_size", "projection_dim") or width
        merged = 4 * width
        total += depth * (4 * width**2 + 2 * width * ffn) + merged * merged + merged * out
    return total
