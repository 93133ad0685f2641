"""What a `model_type` implies that its config does not spell out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kvdoctor.roofline.keys import Keys, refusal

Bias = Literal["none", "qkv", "all"]


@dataclass(frozen=True, slots=True)
class Family:
    """Class defaults of one model type."""

    gated: bool = True
    """FFN of three matrices (gate, up, down) rather than two."""
    bias: Bias = "none"
    """Attention biases where `attention_bias` is absent; what `attention_bias: true` means is `bias_if_asked`."""
    bias_if_asked: Bias = "all"
    ffn_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    tied: bool = False
    norms: int = 2
    """Norm vectors of H a layer."""
    norm_bias: bool = False
    positions: Literal["rope", "learned", "none"] = "rope"
    rotary: float = 1.0
    """Share of a head that rotary embedding turns, where `partial_rotary_factor` is absent."""
    slides: Literal["no", "all", "even", "pattern"] = "no"
    """Which layers slide when `sliding_window` is set and no list says: `pattern` is every n-th full."""
    pattern: int = 0
    """The class default of `sliding_window_pattern`."""
    gate_query: bool = False
    """Q projections are doubled by an output gate (Qwen3-Next, Qwen3.5)."""
    expert_width: str = "moe_intermediate_size"
    attention: str = "self_attn"
    """The module name of the attention, for the ignore lists of quantized checkpoints."""
    ffn: str = "mlp"
    caveat: str = ""
    """What of this family is assumed rather than known, shown as a warning; names the key."""


_LLAMA = Family()
_QWEN2 = Family(bias="qkv", slides="all")
_QWEN3 = Family(qk_norm="head", slides="all")
_QWEN_HYBRID = Family(qk_norm="head", gate_query=True, rotary=0.25)
_GEMMA = Family(tied=True)
_GEMMA2 = Family(tied=True, norms=4, slides="even")
_GEMMA3 = Family(tied=True, norms=4, qk_norm="head", slides="pattern", pattern=6)
_GPT2 = Family(
    gated=False, bias="all", ffn_bias=True, tied=True, norm_bias=True, positions="learned", attention="attn"
)
_GRANITE_MOE = Family(tied=True, expert_width="intermediate_size", ffn="block_sparse_moe")
_DEEPSEEK = Family()
_GLM4 = Family(bias="qkv", bias_if_asked="qkv", rotary=0.5)
_MINIMAX = Family(expert_width="intermediate_size", qk_norm="full", ffn="block_sparse_moe")

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": Family(slides="all"),
    "ministral": Family(slides="all"),
    "ministral3": Family(slides="all"),
    "mistral4": Family(),
    "mixtral": Family(slides="all", expert_width="intermediate_size", ffn="block_sparse_moe"),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "qwen3_omni_moe_text": _QWEN3,
    "qwen3_next": _QWEN_HYBRID,
    "qwen3_5": _QWEN_HYBRID,
    "qwen3_5_text": _QWEN_HYBRID,
    "qwen3_5_moe": _QWEN_HYBRID,
    "qwen3_5_moe_text": _QWEN_HYBRID,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n": replace(_GEMMA3, pattern=5),
    "gemma3n_text": replace(_GEMMA3, pattern=5),
    "gemma4": replace(_GEMMA3, pattern=0),
    "gemma4_text": replace(_GEMMA3, pattern=0),
    "phi3": Family(slides="all"),
    "phimoe": Family(
        slides="all",
        bias_if_asked="all",
        expert_width="intermediate_size",
        ffn="block_sparse_moe",
        norm_bias=True,
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": replace(_GPT2, attention="self_attn"),
    "falcon": Family(gated=False, tied=True, norm_bias=True, attention="self_attention"),
    "gpt_neox": Family(
        gated=False, bias="all", ffn_bias=True, norm_bias=True, rotary=0.25, attention="attention"
    ),
    "starcoder2": Family(gated=False, bias="all", ffn_bias=True, tied=True, norm_bias=True, slides="all"),
    "stablelm": Family(norm_bias=True, bias_if_asked="qkv", rotary=0.25),
    "nemotron": Family(gated=False, norm_bias=True, rotary=0.5),
    "phi": Family(gated=False, bias="all", ffn_bias=True, norms=1, norm_bias=True, rotary=0.4),
    "bloom": Family(
        gated=False,
        bias="all",
        ffn_bias=True,
        tied=True,
        norm_bias=True,
        positions="none",
        attention="self_attention",
    ),
    "gptj": Family(gated=False, ffn_bias=True, norms=1, norm_bias=True, rotary=0.25, attention="attn"),
    "deepseek": _DEEPSEEK,
    "qwen2_5_omni_text": _QWEN2,
    "falcon_h1": Family(),
    "nemotron-nas": _LLAMA,
    "nemotron_h": Family(gated=False, norms=1, positions="none", attention="mixer", ffn="mixer"),
    "cohere": Family(tied=True, norms=1),
    "cohere2": Family(tied=True, norms=1, slides="pattern", pattern=4),
    "command-r": Family(tied=True, norms=1),
    "olmo": _LLAMA,
    "olmo2": Family(qk_norm="full"),
    "olmo3": Family(qk_norm="full", slides="pattern", pattern=4),
    "olmoe": Family(qk_norm="full", expert_width="intermediate_size"),
    "granite": Family(tied=True),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": replace(_GRANITE_MOE, positions="none"),
    "jamba": Family(expert_width="intermediate_size", positions="none", ffn="feed_forward"),
    "bamba": Family(),
    "mamba": Family(tied=True, norms=1, positions="none", attention="mixer"),
    "falcon_mamba": Family(tied=True, norms=1, positions="none", attention="mixer"),
    "mamba2": Family(norms=1, positions="none", attention="mixer"),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "kimi_k25": _DEEPSEEK,
    "kimi_linear": Family(positions="none"),
    "kimi_k3": Family(positions="none"),
    "glm": Family(bias="qkv", bias_if_asked="qkv", rotary=0.5),
    "glm4": Family(bias="none", bias_if_asked="qkv", norms=4, rotary=0.5),
    "glm4_moe": _GLM4,
    "glm4v_moe_text": _GLM4,
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "dots1": Family(qk_norm="head"),
    "ernie4_5": _LLAMA,
    "ernie4_5_moe": _LLAMA,
    "seed_oss": Family(bias="qkv", bias_if_asked="qkv"),
    "smollm3": Family(tied=True),
    "exaone4": Family(qk_norm="head", slides="pattern", pattern=4),
    "internlm2": _LLAMA,
    "internlm3": _LLAMA,
    "yi": _LLAMA,
    "llama4": Family(expert_width="intermediate_size", ffn="feed_forward"),
    "llama4_text": Family(expert_width="intermediate_size", ffn="feed_forward"),
    "gpt_oss": Family(bias="all", expert_width="intermediate_size", slides="even"),
    "minimax_m2": _MINIMAX,
    "minimax_m3": replace(
        _MINIMAX,
        expert_width="moe_intermediate_size",
        caveat="`sparse_attention_config`: one index key a token and layer is assumed; the engine's own cache "
        "may differ",
    ),
    "minimax": Family(expert_width="intermediate_size", ffn="block_sparse_moe"),
    "minimax_text_01": Family(expert_width="intermediate_size", ffn="block_sparse_moe"),
    "mimo": Family(bias="qkv", slides="all"),
    "mimo_v2": Family(),
    "mimo_v2_flash": Family(),
    "step3p5": Family(
        qk_norm="head",
        caveat="`layer_types`: sliding layers may have other head counts than the config names",
    ),
    "step3p7": Family(
        qk_norm="head",
        caveat="`layer_types`: sliding layers may have other head counts than the config names",
    ),
}
_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "GPT2LMHeadModel": "gpt2",
    "GPTBigCodeForCausalLM": "gpt_bigcode",
    "OPTForCausalLM": "opt",
    "FalconForCausalLM": "falcon",
    "MiniMaxText01ForCausalLM": "minimax_text_01",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeciLMForCausalLM": "nemotron-nas",
    "NemotronHForCausalLM": "nemotron_h",
}
# Published under other names than the class's own.
_SPELLINGS = {
    "MiniMaxText01": "minimax_text_01",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "Yi": "yi",
    "deepseek_v3_2": "deepseek_v32",
}


def family_of(keys: Keys) -> tuple[str, Family]:
    """The model type and its defaults. Raises KvdoctorError naming `model_type` where it is not known."""
    name = keys.text("model_type")
    name = _SPELLINGS.get(name, name)
    if not name:
        classes = keys.items("architectures") or [""]
        name = _ARCHITECTURES.get(str(classes[0]), "")
    if name not in FAMILIES:
        raise refusal("model_type", f"is {name!r}, which is not a known family" if name else "is missing")
    return name, FAMILIES[name]


# Small checkpoints of these families share embedding and head, large ones do not (hidden size at most).
_TIED_UP_TO = {"qwen2": 2048, "qwen3": 2560, "qwen2_vl": 2048, "qwen3_vl": 2560, "qwen3_vl_text": 2560}


def tied(keys: Keys, name: str, family: Family, hidden: int) -> bool:
    """Whether the head is the embedding: the key where it is there, else the class default."""
    if keys.raw("tie_word_embeddings") is not None:
        return keys.flag("tie_word_embeddings")
    if name in _TIED_UP_TO:
        return hidden <= _TIED_UP_TO[name]
    return family.tied
