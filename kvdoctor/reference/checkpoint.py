"""Weights from a checkpoint in safetensors files, under the names of the Llama, Mixtral and Qwen families."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.config import ModelConfig, config_of
from kvdoctor.reference.memory import empty
from kvdoctor.reference.weights import DTYPES, LayerWeights, Weights

_STORED = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
# Length of the header, little endian, then the header as JSON, then the data.
_LENGTH_BYTES = 8
_HEADER_LIMIT = 100 << 20


def load_checkpoint(
    folder: str | Path, *, device: str = "cpu", dtype: str | None = None
) -> tuple[ModelConfig, Weights]:
    """The config and the weights of a checkpoint folder. Raises KvdoctorError for what is missing or not known."""
    path = Path(folder)
    try:
        config = config_of(json.loads((path / "config.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise KvdoctorError(
            f"{path / 'config.json'} cannot be read: {error}", "give a checkpoint's folder"
        ) from error
    if dtype:
        config = replace(config, dtype=dtype)
    tensors: dict[str, Tensor] = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors.update(read_safetensors(file))
    if not tensors:
        raise KvdoctorError(f"{path} holds no .safetensors file", "convert the checkpoint")
    return config, _Names(tensors, config, device).weights()


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of one file, mapped rather than read. Raises KvdoctorError where it is cut or malformed."""
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 0 < length <= min(_HEADER_LIMIT, size - _LENGTH_BYTES):
            raise KvdoctorError(f"{path} is no safetensors file", "download it again")
        header = json.loads(file.read(length))
        # Copy on write: torch wants writable memory, and the file must stay as it is.
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))[_LENGTH_BYTES + length :]
    header.pop("__metadata__", None)
    return {name: _tensor(path, name, entry, data) for name, entry in header.items()}


def _tensor(path: Path, name: str, entry: Mapping[str, object], data: memoryview) -> Tensor:
    """One tensor over the mapped bytes."""
    kind, offsets, shape = entry.get("dtype"), entry.get("data_offsets"), entry.get("shape")
    if kind not in _STORED or not isinstance(offsets, list) or not isinstance(shape, list):
        raise KvdoctorError(
            f"{name} in {path.name} has the dtype {kind}", "use a checkpoint in F32, BF16 or F16"
        )
    start, end = offsets
    if not 0 <= start <= end <= len(data):
        raise KvdoctorError(f"{path} is shorter than its header says", "download it again")
    if start == end:
        return torch.empty(shape, dtype=_STORED[kind])
    return torch.frombuffer(data[start:end], dtype=_STORED[kind]).view(shape)


class _Names:
    """Finds tensors by name and brings them to the device."""

    def __init__(self, tensors: Mapping[str, Tensor], config: ModelConfig, device: str) -> None:
        self.tensors, self.config, self.device = tensors, config, device

    def weights(self) -> Weights:
        """Everything."""
        embedding = self.take("model.embed_tokens.weight")
        head = embedding if self.config.tied else self.take("lm_head.weight")
        layers = tuple(self.layer(index) for index in range(self.config.layers))
        return Weights(embedding, layers, self.take("model.norm.weight"), head)

    def take(self, *names: str) -> Tensor:
        """One tensor, or several on top of each other."""
        if missing := [name for name in names if name not in self.tensors]:
            raise KvdoctorError(
                f"the checkpoint has no tensor {missing[0]}", "use a Llama, Qwen2 or Qwen3 checkpoint"
            )
        found = [self.tensors[name] for name in names]
        rows = sum(len(tensor) for tensor in found)
        into = empty((rows, *found[0].shape[1:]), DTYPES[self.config.dtype], self.device)
        for tensor, part in zip(found, into.split([len(tensor) for tensor in found]), strict=True):
            part.copy_(tensor)
        return into

    def layer(self, index: int) -> LayerWeights:
        """One layer."""
        config, at = self.config, f"model.layers.{index}"
        each = [f"{at}.self_attn.{name}_proj" for name in "qkv"]
        found: dict[str, Tensor] = {
            "input_norm": self.take(f"{at}.input_layernorm.weight"),
            "qkv": self.take(*(f"{name}.weight" for name in each)),
            "output": self.take(f"{at}.self_attn.o_proj.weight"),
            "post_norm": self.take(f"{at}.post_attention_layernorm.weight"),
        }
        if config.qkv_bias:
            found["qkv_bias"] = self.take(*(f"{name}.bias" for name in each))
        if config.o_bias:
            found["output_bias"] = self.take(f"{at}.self_attn.o_proj.bias")
        if config.qk_norm:
            found["q_norm"] = self.take(f"{at}.self_attn.q_norm.weight")
            found["k_norm"] = self.take(f"{at}.self_attn.k_norm.weight")
        return LayerWeights(**found, **(self.experts(at) if config.has_experts(index) else self.dense(at)))

    def dense(self, at: str) -> dict[str, Tensor]:
        """A gated MLP."""
        names = (f"{at}.mlp.gate_proj.weight", f"{at}.mlp.up_proj.weight")
        return {"gate_up": self.take(*names), "down": self.take(f"{at}.mlp.down_proj.weight")}

    def experts(self, at: str) -> dict[str, Tensor]:
        """Experts, as Qwen (mlp.experts.N.gate_proj) or Mixtral (block_sparse_moe.experts.N.w1) names them."""
        is_mixtral = f"{at}.block_sparse_moe.gate.weight" in self.tensors
        home = f"{at}.block_sparse_moe" if is_mixtral else f"{at}.mlp"
        gate, up, down = ("w1", "w3", "w2") if is_mixtral else ("gate_proj", "up_proj", "down_proj")
        paths = [f"{home}.experts.{number}" for number in range(self.config.experts)]
        both = [self.take(f"{path}.{gate}.weight", f"{path}.{up}.weight") for path in paths]
        return {
            "router": self.take(f"{home}.gate.weight"),
            "experts_gate_up": torch.stack(both),
            "experts_down": torch.stack([self.take(f"{path}.{down}.weight") for path in paths]),
        }
