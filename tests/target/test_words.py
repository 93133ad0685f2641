"""Command lines taken apart."""

from __future__ import annotations

import pytest

from kvdoctor.target.words import command, options


@pytest.mark.parametrize(
    ("argv", "program", "rest"),
    [
        (["/v/bin/python3", "/v/bin/vllm", "serve", "m"], "vllm", ("serve", "m")),
        (["vllm", "serve", "m"], "vllm", ("serve", "m")),
        (
            ["python3.12", "-u", "-m", "sglang.launch_server", "--port", "1"],
            "sglang.launch_server",
            ("--port", "1"),
        ),
        (["python", "-X", "dev", "-W", "error", "-Bm", "dynamo.vllm"], "dynamo.vllm", ()),
        (["/usr/bin/pypy3", "loop.py", "x"], "loop.py", ("x",)),
        (["/usr/bin/llama-server", "-m", "x.gguf"], "llama-server", ("-m", "x.gguf")),
    ],
)
def test_the_program_is_told_from_its_interpreter(
    argv: list[str], program: str, rest: tuple[str, ...]
) -> None:
    found = command(argv)
    assert found is not None
    assert (found.program, found.rest) == (program, rest)


@pytest.mark.parametrize(
    "argv", [[], ["python3"], ["python3", "-c", "import vllm"], ["python3", "-m"], ["python3", "-"]]
)
def test_an_interpreter_without_a_program_is_none(argv: list[str]) -> None:
    assert command(argv) is None


def test_options_are_read_in_every_spelling() -> None:
    line = "serve m --port=9 --tensor_parallel_size 2 -tp 4 --seed -1 --enforce-eager x --host"
    found = options(line.split())
    assert found.positional == ("serve", "m", "x")
    assert found.value("port") == "9"
    assert found.value("tensor-parallel-size") == "2"
    assert found.value("tp") == "4"
    assert found.value("seed") == "-1"
    assert found.has("enforce-eager", "host")
    assert found.value("host") is None


def test_a_later_option_goes_before_an_earlier_one() -> None:
    assert options(["--port", "1", "--port", "2"]).value("port") == "2"


def test_a_word_behind_a_single_value_is_no_second_value() -> None:
    found = options(["--port", "8000", "model"])
    assert (found.value("port"), found.positional) == ("8000", ("model",))


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "[" * 100_000])
def test_a_document_that_is_none_is_empty(text: str) -> None:
    assert options(["--kv-transfer-config", text]).document("kv-transfer-config") == {}


def test_single_keys_of_a_document_are_laid_over_it() -> None:
    words = ["--kv-transfer-config", '{"kv_role": "kv_both"}', "--kv-transfer-config.kv_connector", "X"]
    found = options(words).document("kv-transfer-config")
    assert found == {"kv_role": "kv_both", "kv_connector": "X"}
