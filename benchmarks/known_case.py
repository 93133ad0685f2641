"""Turn one published figure into questions, and say what the answer is worth."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.known_ask import Json, Query, ask, config_file
from kvdoctor.errors import KvdoctorError

UNITS = {"gib": 2**30, "mib": 2**20, "kib": 2**10, "gb": 1e9, "mb": 1e6, "bytes": 1}
# The README of the cases: fp8 is 1 + 4/16384 bytes a weight.
WEIGHTS = {"fp8": "fp8-block", "fp16": "bf16", "bf16": "bf16"}
ELEMENTS = {4: "fp32", 2: "bf16", 1: "fp8", 0.5625: "nvfp4", 1.0625: "q8_0"}


@dataclass(frozen=True)
class Verdict:
    """held, missed or refused, and the figures."""

    outcome: str
    detail: str


@dataclass(frozen=True)
class Case:
    """An entry of a file, with the folder of the model configs and one for configs of our own."""

    entry: Json
    models: Path
    scratch: Path

    @property
    def given(self) -> Json:
        """The inputs."""
        return dict(self.entry.get("given") or {})

    @property
    def notes(self) -> str:
        """What the entry says of itself."""
        return str(self.entry.get("notes") or "")

    def model(self) -> str:
        """Path of the config: a shipped one (its rotary table as long as the notes say), or of an inline shape."""
        name = self.entry.get("model")
        if name is None:
            return config_file(inline(self.entry.get("shape") or self.given), self.scratch, self.entry["id"])
        path = self.models / f"{name}.json"
        positions = re.search(r"rotary table for (\d+) positions", self.notes)
        if positions is None:
            return str(path)
        config = json.loads(path.read_text(encoding="utf-8"))
        return config_file(
            config | {"max_position_embeddings": int(positions[1])}, self.scratch, self.entry["id"]
        )


def inline(shape: Json) -> Json:
    """A config with the layers, heads or latents that an entry gives; the rest does not touch KV."""
    common = {"vocab_size": 32000, "intermediate_size": 4096, "num_hidden_layers": shape["layers"]}
    if "kv_lora_rank" in shape:
        latent = {key: shape[key] for key in ("kv_lora_rank", "qk_rope_head_dim")}
        heads = {"num_attention_heads": 32, "qk_nope_head_dim": 128, "v_head_dim": 128, "hidden_size": 4096}
        return common | heads | latent | {"model_type": "deepseek_v2"}
    heads, size = shape["kv_heads"], shape["head_dim"]
    config = {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": size}
    config |= {"hidden_size": heads * size, "model_type": "llama"}
    if "v_head_dim" in shape:
        config["v_head_dim"] = shape["v_head_dim"]
    return common | config


def storage_options(given: Json) -> Json:
    """`kv_dtype`, bytes an element, block size, width and layout in the command's spelling."""
    found: Json = {}
    if "kv_dtype" in given:
        found["kv-dtype"] = str(given["kv_dtype"]).split()[0].rstrip(",;")
    elif (size := given.get("kv_bytes_per_elem", given.get("bytes_per_elem"))) is not None:
        if size not in ELEMENTS:
            raise KvdoctorError(f"{size} bytes an element is no KV dtype")
        found["kv-dtype"] = ELEMENTS[size]
    if given.get("index_bytes_per_elem") == 1:
        found["index-dtype"] = "plain-fp8"
    for key, name in (("block_size", "block-size"), ("tp", "tp"), ("pp", "pp"), ("dcp", "dcp")):
        if key in given:
            found[name] = given[key]
    if in_flight := given.get("max_num_batched_tokens"):
        found |= {"windows": "vllm", "in-flight": in_flight}
    layout = str(given.get("layout", ""))
    if "padded" in layout:
        found["latent"] = "padded"
    elif "both" in layout or "K and V" in layout:
        found["latent"] = "both"
    if "mtp" in given or "draft" in given:
        found["draft-kv"] = True
    return found


def rounding(printed: Any) -> float:
    """Half a unit in the last printed digit of a number."""
    exponent = Decimal(str(printed)).as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent) if isinstance(exponent, int) else 0.0


def expected(case: Case) -> tuple[str, float]:
    """The figure to compare: the first key of `expect`."""
    key, value = next(iter(case.entry["expect"].items()))
    return str(key), float(value)


def judge(case: Case, value: float, warnings: list[str]) -> Verdict:
    """Compare with the first expected figure; an entry known to be off must be answered with a warning."""
    key, want = expected(case)
    error = value / want - 1 if want else float(value != want)
    text = f"{key} {value:.6g} for {want:.6g} ({error:+.2%})"
    if abs(error) <= float(case.entry.get("tolerance") or 0.0) + 1e-12:
        return Verdict("held", text)
    if case.entry.get("status") in ("off", "not modelled"):
        return Verdict(
            "held" if warnings else "missed", f"{text}, warned: {'; '.join(warnings) or 'nothing'}"
        )
    return Verdict("missed", text)


def in_unit(key: str, size: float) -> float:
    """Bytes in the unit that a key names."""
    return size / next(UNITS[part] for part in key.split("_") if part in UNITS)


def answered(case: Case, **options: Any) -> Json:
    """Ask with the storage options of the entry and further ones."""
    extra = {name.replace("_", "-"): value for name, value in options.items()}
    return ask(Query(case.model(), storage_options(case.given) | extra))
