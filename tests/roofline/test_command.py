"""The command: options, files, errors, and a start-up without what is heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvdoctor import cli

SCHEMA = json.loads(files("kvdoctor").joinpath("schema/roofline-1.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the program as a shell would, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["kvdoctor", "roofline", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON of a call that works."""
    assert run(monkeypatch, *words, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture(autouse=True)
def _no_local_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdoctor.roofline.machine.local_gpu_name", lambda: None)


@pytest.mark.parametrize(
    "words",
    [
        ("Llama-3.1-8B",),
        ("Llama-3.1-8B", "--gpu", "H100", "--batch", "32", "--context", "4k:3,32k:1"),
        ("DeepSeek-V3.2", "--gpu", "H200", "--gpus", "8", "--dp-attention", "8", "--batch", "64"),
        ("Qwen3-Next-80B-A3B", "--gpu", "H100", "--gpus", "2", "--sweep", "batch", "--state-dtype", "bf16"),
        ("Llama-2-70B", "--gpu", "H100", "--claim", "85 tok/s"),
        ("gpt-oss-120b", "--gpu", "B200", "--draft-tokens", "2", "--accept", "0.6", "--windows", "vllm"),
        ("Llama-3.1-405B", "--gpu", "H100", "--tp", "8", "--pp", "2", "--sweep", "context"),
        ("Jamba-v0.1", "--bandwidth", "1000", "--pool", "10"),
        ("Llama-3.1-8B", "--context", "0"),
    ],
)
def test_every_answer_meets_the_schema(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(monkeypatch, capsys, *words)
    assert [error.message for error in VALIDATOR.iter_errors(found)] == []


def test_the_schema_is_valid_and_the_contracts_keys_are_required() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    contract = """schema_version model parameters per_rank kv_bytes_per_sequence pool decode prefill tiers what_if
    warnings"""
    assert set(contract.split()) <= set(SCHEMA["required"])
    decode = SCHEMA["properties"]["decode"]["required"]
    keys = "bytes flops step_seconds_floor tokens_per_s_ceiling tokens_per_s_expected limit"
    assert set(keys.split()) <= set(decode)


def test_figures_of_the_contract(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(monkeypatch, capsys, "Llama-3.1-8B", "--gpu", "H100", "--batch", "32", "--context", "4096")
    assert found["per_rank"]["kv_bytes_per_token"] == 131072
    assert found["kv_bytes_per_sequence"] == 131072 * 4096
    assert found["decode"]["bytes"]["kv"] == 2**34
    assert found["decode"]["tokens_per_s_ceiling"] == pytest.approx(
        32 / found["decode"]["step_seconds_floor"]
    )
    assert found["parameters"]["total"] == pytest.approx(8.03e9, rel=1e-3)
    assert found["pool"]["tokens"] == found["pool"]["blocks"] * 16


def test_the_same_question_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("DeepSeek-V3", "--gpu", "H200", "--gpus", "8", "--sweep", "batch")
    assert asked(monkeypatch, capsys, *words) == asked(monkeypatch, capsys, *words)


def test_what_does_not_fit_is_said_before_any_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "Llama-2-70B", "--gpu", "H100") == 0
    text = capsys.readouterr().out
    assert text.index("DOES NOT FIT") < text.index("tok/s")


def test_files_are_written_and_the_text_still_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page, data = tmp_path / "a.html", tmp_path / "a.json"
    assert run(monkeypatch, "Llama-3.1-8B", "--gpu", "H100", "--html", str(page), "--json", str(data)) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    VALIDATOR.validate(json.loads(data.read_text(encoding="utf-8")))
    assert "Ceiling" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "Llama-3.1-8B", "--json", str(tmp_path / "no" / "a.json")) == 1
    assert "cannot be written: no such folder" in capsys.readouterr().err


def test_a_file_of_somebody_elses_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    notes, page = tmp_path / "notes", tmp_path / "page.html"
    notes.write_text("do not lose me")
    assert run(monkeypatch, "Llama-3.1-8B", "--html", str(notes)) == 1
    assert notes.read_text() == "do not lose me"
    for _ in range(2):
        assert run(monkeypatch, "Llama-3.1-8B", "--html", str(page)) == 0
    assert "nothing else is written over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "--example"),
        (("no-such-model",), 1, "no-such-model"),
        (("Llama-3.1-8B", "--gpu", "H1000"), 1, "H100"),
        (("Llama-3.1-8B", "--gpus", "many"), 2, "--gpus"),
        (("Llama-3.1-8B", "--gpux", "H100"), 2, "--gpux"),
        (("Llama-3.1-8B", "--sweep", "time"), 1, "batch, context"),
        (("--example", "--json", "-"), 1, "text only"),
    ],
)
def test_errors_say_what_to_try(
    words: tuple[str, ...],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *words) == code
    assert said in capsys.readouterr().err


def test_a_config_that_is_not_understood_is_refused_with_its_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "zork", "hidden_size": 1}))
    assert run(monkeypatch, str(tmp_path)) == 1
    assert "`model_type`" in capsys.readouterr().err


def test_the_example_needs_no_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--example") == 0
    assert "93.1 tok/s" in capsys.readouterr().out


def test_help_ends_with_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].strip() == "kvdoctor roofline --example"


def test_nothing_heavy_is_loaded_for_a_plain_answer() -> None:
    code = """if True:
        import sys
        import typer
        brought = set(sys.modules)
        from kvdoctor import cli
        sys.argv = ["kvdoctor", "roofline", "Llama-3.1-8B", "--gpu", "H100"]
        try:
            cli.main()
        finally:
            heavy = "torch numpy pydantic rich matplotlib jinja2 pynvml http.client psutil".split()
            sys.stderr.write(" ".join(sorted(set(heavy) & set(sys.modules) - brought)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
