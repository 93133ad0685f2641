"""Read how a checkpoint is quantized, from config.json or from the side file of ModelOpt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.roofline.keys import Json, refusal
from kvdoctor.roofline.match import Matcher
from kvdoctor.roofline.shape import Weight

_NOTHING = Matcher(())


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a checkpoint is quantized."""

    format: str
    """Format of every quantizable weight that no rule names; "" where only named ones are quantized."""
    keep: Matcher = _NOTHING
    """Modules that stay at the model's dtype."""
    rules: tuple[tuple[Matcher, str], ...] = ()
    """Further formats by module; the first that matches wins."""
    experts_only: bool = False
    head: str = ""
    """Format of the head where the checkpoint names it, else "" for the model's dtype."""

    def format_of(self, weight: Weight, path: str, dtype: str) -> str:
        """The format of one weight of a layer; `path` is `INDEX.module`."""
        if (
            not weight.quantizable
            or (self.experts_only and weight.part != "expert")
            or self.keep.matches(path)
        ):
            return dtype
        for matcher, form in self.rules:
            if matcher.matches(path):
                return form
        return self.format or dtype


def scheme_of(config: Json, side: Json | None) -> tuple[Scheme | None, str]:
    """The scheme and the KV dtype that it asks for ("" for none), from config.json, else from the side file.

    Raises KvdoctorError naming the key that is not understood.
    """
    block = config.get("quantization_config")
    if isinstance(block, Mapping) and block:
        return _scheme(block), _kv_dtype(block)
    modelopt = (side or {}).get("quantization")
    if isinstance(modelopt, Mapping) and modelopt.get("quant_algo"):
        return _modelopt(modelopt), _kv_dtype(modelopt)
    return None, _kv_dtype(modelopt) if isinstance(modelopt, Mapping) else ""


def _kv_dtype(block: Json) -> str:
    """`kv_cache_scheme` (compressed-tensors) or `kv_cache_quant_algo` (ModelOpt)."""
    algorithm = str(block.get("kv_cache_quant_algo") or "").lower()
    if algorithm:
        return {"fp8": "fp8", "nvfp4": "nvfp4", "int8": "int8", "none": ""}.get(algorithm, "")
    scheme = block.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return "fp8" if scheme.get("type") == "float" else "int8"
    return ""


def _names(block: Json, *keys: str) -> Matcher:
    """A matcher of all module names that the keys list."""
    found: list[str] = []
    for key in keys:
        value = block.get(key)
        found += [str(name) for name in value] if isinstance(value, (list, tuple)) else []
    return Matcher(tuple(found))


def _scheme(block: Json) -> Scheme:
    """The scheme of a `quantization_config` block."""
    method = str(block.get("quant_method") or "").lower().replace("_", "-")
    keep = _names(block, "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
    if method == "modelopt" or (not method and block.get("quant_algo")):
        return _modelopt(block)
    if method == "compressed-tensors":
        return _compressed(block, keep)
    if method == "mxfp4":
        return Scheme("mxfp4", keep, experts_only=True)
    if method in ("fp8", "fbgemm-fp8"):
        return Scheme("fp8-block" if block.get("weight_block_size") else "fp8", keep)
    if method in ("awq", "gptq", "auto-round", "intel/auto-round", "gptq-marlin", "awq-marlin"):
        return Scheme(_integer(block), keep)
    if method in ("bitsandbytes", "bnb"):
        return Scheme(_bitsandbytes(block), keep)
    raise refusal("quantization_config.quant_method", f"is {block.get('quant_method')!r}")


def _integer(block: Json) -> str:
    """AWQ, GPTQ, AutoRound: bits and group size."""
    bits, group = (
        block.get("bits", block.get("w_bit", 4)),
        block.get("group_size", block.get("q_group_size", 128)),
    )
    if bits == 8:
        return "int8-weight-only"
    if bits != 4 or not isinstance(group, int):
        raise refusal("quantization_config.bits", f"is {bits!r} with group size {group!r}")
    # -1 is one group a column: the scales vanish beside the weights.
    return f"int4-g{group}" if group > 0 else "int4-g16384"


def _bitsandbytes(block: Json) -> str:
    """nf4, with its scales quantized again or not; int8."""
    if block.get("load_in_8bit"):
        return "int8"
    return "nf4-double" if block.get("bnb_4bit_use_double_quant") else "nf4"


def _modelopt(block: Json) -> Scheme:
    """ModelOpt: one algorithm, or one a module."""
    keep = _names(block, "exclude_modules", "ignore")
    algorithm = str(block.get("quant_algo") or "")
    layers = block.get("quantized_layers")
    if not isinstance(layers, Mapping):
        return Scheme(_algorithm(algorithm), keep)
    by_format: dict[str, list[str]] = {}
    for name, entry in layers.items():
        form = _algorithm(str(entry.get("quant_algo")) if isinstance(entry, Mapping) else "")
        by_format.setdefault(form, []).append(str(name))
    head = next((form for form, names in by_format.items() if "lm_head" in names), "")
    rules = tuple((Matcher(tuple(names)), form) for form, names in by_format.items())
    return Scheme("", keep, rules, head=head)


_ALGORITHMS = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8-block",
    "FP8_PB_REAL": "fp8-block",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "W4A16_NVFP4": "nvfp4-weight-only",
    "INT4_AWQ": "int4-g128",
    "W4A16_AWQ": "int4-g128",
    "W4A8_AWQ": "int4-g128",
    "INT8": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "MXFP4": "mxfp4",
    "MXFP8": "mxfp8",
    "W4A8_MXFP4_FP8": "mxfp4",
}


def _algorithm(name: str) -> str:
    """A ModelOpt algorithm in our names."""
    if name.upper() not in _ALGORITHMS:
        raise refusal("quant_algo", f"is {name!r}")
    return _ALGORITHMS[name.upper()]


def _compressed(block: Json, keep: Matcher) -> Scheme:
    """compressed-tensors: groups of targets; `Linear` is everything else."""
    groups = block.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise refusal("quantization_config.config_groups", "is missing")
    default, rules = "", []
    for group in groups.values():
        if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
            raise refusal("quantization_config.config_groups", "has a group without weights")
        form = _group_format(group["weights"])
        targets = [str(target) for target in group.get("targets") or ["Linear"]]
        if "Linear" in targets:
            default = form
        named = tuple(target for target in targets if target != "Linear")
        if named:
            rules.append((Matcher(named), form))
    return Scheme(default, keep, tuple(rules))


def _group_format(weights: Json) -> str:
    """The format of one group of compressed-tensors."""
    bits, size = weights.get("num_bits"), weights.get("group_size")
    group = size if isinstance(size, int) and size > 0 else 0
    if weights.get("type") == "float" and bits == 8:
        return {"block": "fp8-block", "group": "mxfp8"}.get(str(weights.get("strategy")), "fp8")
    if weights.get("type") == "float" and bits == 4:
        return "mxfp4" if group == 32 else "nvfp4"
    if weights.get("type") == "int" and bits == 8:
        return "int8"
    if weights.get("type") == "int" and bits == 4:
        kind = "int4-g" if weights.get("symmetric") is False else "int4-sym-g"
        return f"{kind}{group or 16384}"
    raise refusal("quantization_config.config_groups", f"has {bits!r}-bit {weights.get('type')!r} weights")
