"""What the user tells is checked, and kept as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvdoctor.commands.facts import Told, facts, objectives, seconds
from kvdoctor.errors import KvdoctorError, Misuse


@pytest.mark.parametrize(
    ("text", "value"), [("2s", 2.0), ("50ms", 0.05), (" 1.5 s ", 1.5), ("0.05", 0.05), ("250us", 0.00025)]
)
def test_a_time_is_read_with_its_unit(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "nan", "inf", "1..2s", ".", "2 h", "2s2s", "١s"])
def test_what_is_no_time_above_0_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        seconds(text)


def test_objectives_are_facts() -> None:
    assert objectives("ttft=2s, itl=50ms") == {"slo_ttft": "2.0", "slo_itl": "0.05"}


@pytest.mark.parametrize("text", ["", ",", "rubbish", "ttft", "ttft=", "e2e=2s", "ttft=2s,itl=x"])
def test_what_is_no_objective_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        objectives(text)


def test_what_was_not_told_is_no_fact() -> None:
    assert facts(Told()) == {}


@pytest.mark.parametrize(
    "told",
    [
        Told(bandwidth=0.0),
        Told(bandwidth=float("nan")),
        Told(bandwidth=float("inf")),
        Told(link=-1.0),
        Told(tp=0),
        Told(slow="both"),
        Told(slo="x"),
    ],
)
def test_a_value_that_cannot_be_is_misuse(told: Told) -> None:
    with pytest.raises(Misuse):
        facts(told)


@pytest.mark.parametrize("told", [Told(gpu="Z9000"), Told(model="no such model")])
def test_what_is_not_known_is_a_sentence(told: Told) -> None:
    with pytest.raises(KvdoctorError) as caught:
        facts(told)
    assert caught.value.hint


def test_numbers_are_kept_to_the_last_digit() -> None:
    found = facts(Told(bandwidth=3350.1, link=0.1, tp=8, slow="itl"))
    given = {"bandwidth": "3350.1", "bandwidth_basis": "as given by --bandwidth"}
    assert found == {**given, "link": "0.1", "tp": "8", "slow": "itl"}


@pytest.mark.parametrize(("text", "value"), [("3350", 3350.0), ("3.35TB/s", 3350.0), ("400Gbps", 50.0)])
def test_a_bandwidth_is_gb_a_second_where_no_unit_says_otherwise(text: str, value: float) -> None:
    assert float(facts(Told(bandwidth=text))["bandwidth"]) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "fast", "nowhere.json", "-3", "nan", "inf", "80GiB"])
def test_what_is_neither_a_rate_nor_a_file_is_misuse(text: str) -> None:
    with pytest.raises(Misuse):
        facts(Told(bandwidth=text))


PROBE = {
    "probe": "decode",
    "at": "2026-11-29T10:00:00Z",
    "device": "CPU",
    "achieved_bytes_per_s": 20e9,
    "plain_read_bytes_per_s": 25e9,
    "bytes_per_step": 1e9,
    "conditions": {"model": "m", "batch": 2, "context": 99, "weights": "fp32", "kv_dtype": "fp32"},
}


def test_a_probes_file_is_a_rate_with_its_basis_and_conditions(tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(PROBE))
    found = facts(Told(bandwidth=str(path)))
    assert float(found["bandwidth"]) == 20.0
    assert found["bandwidth_basis"] == (
        "measured by probe decode at batch 2, context 99: decode of m, fp32 weights, fp32 KV, CPU, 2026-11-29"
    )
    assert json.loads(found["bandwidth_measured"])["read"] == 25e9


def test_a_file_of_another_tool_is_a_rate_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"bytes_per_s": 2e12}')
    found = facts(Told(bandwidth=str(path)))
    assert found == {"bandwidth": "2000.0", "bandwidth_basis": "measured, as other.json says"}


def test_the_file_of_a_disks_probe_is_misuse(tmp_path: Path) -> None:
    path = tmp_path / "nvme.json"
    path.write_text('{"probe": "nvme", "rows": [{"bytes_per_s": 2e9}]}')
    with pytest.raises(Misuse, match="none of how fast memory is read"):
        facts(Told(bandwidth=str(path)))


def test_a_model_travels_with_the_recording(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "num_hidden_layers": 4,
        "vocab_size": 1000,
        "torch_dtype": "float32",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = facts(Told(model=str(tmp_path)))
    assert json.loads(found["model_config"]) == config
