"""What a command line says that changes a reading: ranks, block size, KV dtype, limits, connectors."""

from __future__ import annotations

from collections.abc import Mapping

from kvdoctor.model import Gap
from kvdoctor.target.serving import SERVING
from kvdoctor.target.words import Options

_COUNTS = frozenset(
    ("tp", "pp", "dp", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
)
_ON = {"vllm": ("enable-prefix-caching",), "lmdeploy": ("enable-prefix-caching",)}
_OFF = {"vllm": ("no-enable-prefix-caching",), "sglang": ("disable-radix-cache",)}
_SCALE = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 2**10, "M": 2**20, "G": 2**30}
_VALUE = 200


def flag_facts(engine: str, options: Options) -> dict[str, str]:
    """Return the facts that an engine's options state; what is left to a default is absent."""
    found: dict[str, str] = {}
    for name, names in SERVING[engine].facts.items():
        value = options.value(*names)
        number = whole(value) if name in _COUNTS else None
        if value and (name not in _COUNTS or number is not None):
            found[name] = str(number) if number is not None else value[:_VALUE]
    if options.has(*_ON.get(engine, ())):
        found["prefix_caching"] = "true"
    if options.has(*_OFF.get(engine, ())):
        found["prefix_caching"] = "false"
    found |= _special(engine, options)
    return found


def whole(text: str | None) -> int | None:
    """Read a count as engines take it: `8192`, `8k` (8000), `8K` (8192); None for `auto` and the like."""
    if not text:
        return None
    digits, scale = (text[:-1], _SCALE[text[-1]]) if text[-1] in _SCALE else (text, 1)
    try:
        number = float(digits) * scale
    except ValueError:
        return None
    return int(number) if 0 < number < 2**40 and number == int(number) else None


def _special(engine: str, options: Options) -> dict[str, str]:
    if engine == "vllm":
        return _connector(options.document("kv-transfer-config")) | _drafts(options)
    if engine == "sglang" and options.has("enable-hierarchical-cache"):
        backend = options.value("hicache-storage-backend")
        return {"kv_connector": f"hicache {backend}" if backend else "hicache"}
    if engine == "lmdeploy":
        policy = options.value("quant-policy")
        return {"kv_dtype": f"int{policy}"} if policy in ("4", "8") else {}
    return {}


def _connector(config: Mapping[str, object]) -> dict[str, str]:
    """Return connector and role of --kv-transfer-config."""
    wanted = {"kv_connector": config.get("kv_connector"), "kv_role": config.get("kv_role")}
    return {name: value[:_VALUE] for name, value in wanted.items() if isinstance(value, str) and value}


def _drafts(options: Options) -> dict[str, str]:
    """Return the method of speculation, and how many tokens it drafts."""
    config = options.document("speculative-config") | options.document("sc")
    method = (
        config.get("method")
        or options.value("spec-method")
        or config.get("model")
        or options.value("spec-model")
    )
    tokens = config.get("num_speculative_tokens") or options.value("spec-tokens")
    found = {"speculative": str(method)[:_VALUE]} if method else {}
    return found | ({"speculative_tokens": str(tokens)[:_VALUE]} if tokens else {})


def unread_settings(engine: str, options: Options) -> tuple[Gap, ...]:
    """Name a settings file that the command line points to: what stands in it is not known."""
    names = ("config", "extra-llm-api-options", "config-file")
    file = options.value(*names)
    if engine not in ("vllm", "sglang", "tensorrt_llm") or not file:
        return ()
    reason = f"options may also stand in {file[:_VALUE]}, which is not read"
    return (Gap("command line", reason, "give what matters: --tp, --model, --gpu"),)
