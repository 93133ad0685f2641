"""What `kvdoctor probe decode` is asked to decode."""

from __future__ import annotations

import json

import pytest

from kvdoctor.commands import running
from kvdoctor.commands.decoding import decode_options
from kvdoctor.errors import KvdoctorError, Misuse


def test_without_a_model_the_probe_has_its_own():
    assert decode_options(None, None, 4, "8k") == {"batch": 4, "context": 8192}


def test_a_preset_brings_its_config():
    found = decode_options("Llama-3.1-8B", None, None, None)
    assert found["config"]["num_hidden_layers"] == 32
    assert found["model"] == "Llama-3.1-8B"


def test_a_folder_brings_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert decode_options(str(tmp_path), None, None, None)["config"] == {"model_type": "llama"}


def test_a_running_engine_brings_its_config_and_its_load(monkeypatch):
    facts = {"model_config": '{"model_type": "qwen3"}', "model": "/models/q"}
    monkeypatch.setattr(
        running, "running", lambda pid: running.Running(facts=facts, batch=7.6, context=900.4)
    )
    expected = {"config": {"model_type": "qwen3"}, "model": "q", "batch": 8, "context": 900}
    assert decode_options(None, 1, None, None) == expected
    assert decode_options(None, 1, 2, None)["batch"] == 2


def test_an_engine_whose_files_are_closed_is_said(monkeypatch):
    monkeypatch.setattr(running, "running", lambda pid: running.Running())
    with pytest.raises(KvdoctorError, match="does not tell its model's config"):
        decode_options(None, 1, None, None)


@pytest.mark.parametrize(("batch", "context"), [(0, None), (-1, None), (None, "0")])
def test_a_step_of_nothing_is_misuse(batch, context):
    with pytest.raises(Misuse, match="at least one"):
        decode_options(None, None, batch, context)
