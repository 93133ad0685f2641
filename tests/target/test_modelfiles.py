"""The model's own config, found as the process would find it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kvdoctor.target.modelfiles import MOST_BYTES, Served, Sight, served
from kvdoctor.target.process import Ids
from kvdoctor.target.rooted import View
from kvdoctor.target.words import options

ME = Ids(os.geteuid(), os.getegid(), frozenset(), (1,), 0)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def put(folder: Path, config: object = CONFIG, name: str = "config.json") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(config if isinstance(config, str) else json.dumps(config))


def find(
    root: Path, name: str, *, words: str = "", env: Mapping[str, str] | None = None, cwd: str = "/srv"
) -> Served:
    return served(name, Sight(View(str(root), ME), options(words.split()), env or {}, cwd, "sudo x"))


def config_of(found: Served) -> dict[str, object]:
    loaded = json.loads(dict(found.facts)["model_config"])
    assert isinstance(loaded, dict)
    return loaded


def test_a_folder_is_read(root: Path) -> None:
    put(root / "models" / "m")
    found = find(root, "/models/m")
    assert (found.folder, found.gaps) == ("/models/m", ())
    assert config_of(found)["hidden_size"] == 64


def test_a_relative_folder_is_looked_up_where_the_process_stands(root: Path) -> None:
    put(root / "srv" / "models" / "m")
    assert find(root, "models/m").folder == "/srv/models/m"
    assert find(root, "./models/m").folder == "/srv/models/m"


def hub(root: Path, base: str) -> Path:
    folder = root / base.strip("/") / "models--org--name"
    blob = folder / "blobs" / "abc"
    put(blob.parent, name="abc")
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    put(folder / "refs", COMMIT, "main")
    return folder


@pytest.mark.parametrize(
    ("base", "words", "env"),
    [
        ("/home/u/.cache/huggingface/hub", "", {"HOME": "/home/u"}),
        ("/data/hf/hub", "", {"HF_HOME": "/data/hf", "HOME": "/home/u"}),
        ("/data/hub", "", {"HF_HUB_CACHE": "/data/hub", "HF_HOME": "/data/hf"}),
        ("/xdg/huggingface/hub", "", {"XDG_CACHE_HOME": "/xdg"}),
        ("/dl", "--download-dir /dl", {"HOME": "/home/u"}),
    ],
)
def test_a_name_is_looked_up_in_the_hubs_cache(
    root: Path, base: str, words: str, env: dict[str, str]
) -> None:
    hub(root, base)
    found = find(root, "org/name", words=words, env=env)
    assert found.folder == f"{base}/models--org--name/snapshots/{COMMIT}"
    assert config_of(found)["vocab_size"] == 1000


def test_a_revision_is_its_own_snapshot(root: Path) -> None:
    folder = hub(root, "/hub")
    other = COMMIT[::-1]
    put(folder / "snapshots" / other, {**CONFIG, "hidden_size": 128})
    put(folder / "refs", other, "v2")
    env = {"HF_HUB_CACHE": "/hub"}
    assert config_of(find(root, "org/name", env=env))["hidden_size"] == 64
    assert config_of(find(root, "org/name", words="--revision v2", env=env))["hidden_size"] == 128
    assert config_of(find(root, "org/name", words=f"--revision {other}", env=env))["hidden_size"] == 128


def test_of_two_snapshots_none_is_guessed(root: Path) -> None:
    folder = hub(root, "/hub")
    put(folder / "snapshots" / COMMIT[::-1])
    (folder / "refs" / "main").unlink()
    found = find(root, "org/name", env={"HF_HUB_CACHE": "/hub"})
    assert found.facts == ()
    assert "in no cache of the hub" in found.gaps[0].reason


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ({"model_type": "x"}, "model_type"),
        ("x" * (MOST_BYTES + 1), "bytes"),
    ],
)
def test_a_config_that_cannot_be_used_is_a_gap(root: Path, config: object, reason: str) -> None:
    put(root / "m", config)
    found = find(root, "/m")
    assert found.facts == ()
    assert reason in found.gaps[0].reason


def test_the_quantization_file_comes_along(root: Path) -> None:
    put(root / "m")
    put(root / "m", {"quantization": {"quant_algo": "FP8"}}, "hf_quant_config.json")
    assert json.loads(dict(find(root, "/m").facts)["model_side"])["quantization"] == {"quant_algo": "FP8"}


def test_a_secret_in_a_config_is_masked(root: Path) -> None:
    put(
        root / "m",
        {**CONFIG, "auth_token": "hf_abc", "nested": {"api_key": "k"}, "from": "https://u:p@h/x?token=t"},
    )
    config = config_of(find(root, "/m"))
    text = json.dumps(config)
    assert all(secret not in text for secret in ("hf_abc", '"k"', "u:p", "=t"))
    assert config["hidden_size"] == 64


def test_closed_files_are_a_gap_and_a_known_name_gives_the_shape() -> None:
    sight = Sight(None, options([]), {}, "", "sudo kvdoctor diagnose --pid 7")
    found = served("meta-llama/Llama-3.1-8B-Instruct", sight)
    assert found.gaps[0].cure == "sudo kvdoctor diagnose --pid 7"
    assert "by its name" in found.gaps[1].reason
    assert json.loads(dict(found.facts)["model_config"])["hidden_size"] == 4096
    assert served("/srv/my-own", sight).facts == ()
