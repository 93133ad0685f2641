"""Checkpoints: read under their names, refused when broken, and the same logits as transformers."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from kvdoctor.errors import KvdoctorError  # noqa: E402
from kvdoctor.reference.batch import batch_of  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.checkpoint import load_checkpoint, read_safetensors  # noqa: E402
from kvdoctor.reference.config import config_of  # noqa: E402
from kvdoctor.reference.model import Transformer  # noqa: E402
from kvdoctor.reference.request import Phase, Plan, Request, Wait, Work  # noqa: E402

BASE = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
KINDS = {
    "Llama": BASE,
    "Llama with scaled rope": {**BASE, "rope_parameters": SCALED},
    "Llama tied, with biases": {**BASE, "tie_word_embeddings": True, "attention_bias": True},
    "Mistral": {**BASE, "sliding_window": 7},
    "Qwen2": BASE,
    "Qwen3": {**BASE, "head_dim": 32},
    "Mixtral": {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "Qwen3Moe": {
        **BASE,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "head_dim": 32,
        "norm_topk_prob": True,
        "mlp_only_layers": [1],
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_agree_with_transformers(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    name = kind.split()[0]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**KINDS[kind])
    theirs = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(1.0 if parameter.dim() == 1 else 0.0, 0.2)
    theirs.save_pretrained(tmp_path)
    tokens = [(i * 37) % 97 for i in range(45)]
    with torch.no_grad():
        expected = theirs(torch.tensor([tokens])).logits[0]
    shape, weights = load_checkpoint(tmp_path, dtype="fp32")
    ours = stepped(Transformer(shape, weights, PagedCache(shape, 8, 16)), tokens, first=30)
    assert torch.allclose(ours, expected[29:], atol=2e-4, rtol=1e-3)
    assert torch.equal(ours.argmax(-1), expected[29:].argmax(-1))


def stepped(model: Transformer, tokens: list[int], first: int):
    """Logits after each token from the `first`-th on: one prefill, then decode."""
    request = Request("a", tuple(tokens[:first]), 99, output=tokens[first:], table=[5, 2, 7])
    steps = [(0, first), *((at, 1) for at in range(first, len(tokens)))]
    found = []
    for start, count in steps:
        plan = Plan((Work(request, start, count, Phase.PREFILL, samples=True),), (), (), (), Wait.NOTHING)
        found.append(model.logits(batch_of(plan, 16)[0])[0][0])
    return torch.stack(found)


def written(path, header: dict, data: bytes = b""):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_a_tensor_comes_back_as_it_was_written(tmp_path):
    values = torch.arange(6, dtype=torch.float32)
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    path = written(
        tmp_path / "a.safetensors", {"x": entry, "__metadata__": {"a": "b"}}, struct.pack("<6f", *values)
    )
    assert torch.equal(read_safetensors(path)["x"], values.view(2, 3))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}, "shorter than its header"),
        ({"dtype": "I4", "shape": [1], "data_offsets": [0, 1]}, "has the dtype I4"),
    ],
)
def test_a_cut_or_quantized_file_is_refused(entry, said, tmp_path):
    path = written(tmp_path / "a.safetensors", {"x": entry}, b"1234")
    with pytest.raises(KvdoctorError, match=said):
        read_safetensors(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"not a checkpoint, by far")
    with pytest.raises(KvdoctorError, match="no safetensors"):
        read_safetensors(tmp_path / "a.safetensors")


def test_a_missing_tensor_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**BASE, "model_type": "llama"}))
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    written(tmp_path / "a.safetensors", {"x": entry}, b"1234")
    with pytest.raises(KvdoctorError, match=r"no tensor model\.embed_tokens\.weight"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model_type": "deepseek_v3"}, "model_type 'deepseek_v3'"),
        ({"model_type": "llama", "kv_lora_rank": 512}, "kv_lora_rank"),
        ({"model_type": "llama", "num_key_value_heads": 3}, "3 KV heads do not divide"),
        ({"model_type": "llama", "torch_dtype": "float8"}, "dtype 'float8'"),
        ({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}}, "rotary scaling 'yarn'"),
    ],
)
def test_what_the_engine_cannot_run_is_named(more, said):
    with pytest.raises(KvdoctorError, match=said):
        config_of({**BASE, **more})


def test_the_first_layers_of_a_model_keep_their_windows():
    shape = config_of({**BASE, "model_type": "mistral", "sliding_window": 7})
    assert shape.with_layers(2).windows == (7, 7)
    assert replace(shape, layers=2, windows=(7, 7)) == shape.with_layers(2)
