"""What must never be shown, and what must not be hidden with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdoctor import secrets
from kvdoctor.secrets import API_KEY, clean, key_of, mask_argv, mask_url


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["--api-key", "abc"], ["--api-key", "***"]),
        (["--api-key", "one", "two", "--port", "8000"], ["--api-key", "***", "***", "--port", "8000"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--hf-token", "hf_abc"], ["--hf-token", "***"]),
        (["--client-secret", "s"], ["--client-secret", "***"]),
        (["--password", "123456"], ["--password", "***"]),
        (["HF_TOKEN=hf_abc", "vllm"], ["HF_TOKEN=***", "vllm"]),
        (["--url", "http://u:p@h/x?api_key=k&a=b"], ["--url", "http://***@h/x?api_key=***&a=b"]),
        (["-H", "Authorization: Bearer abcdefghij"], ["-H", "Authorization: Bearer ***"]),
        (["--cfg", '{"api_key": "k", "a": "b"}'], ["--cfg", '{"api_key": "***", "a": "b"}']),
        (["--max-num-batched-tokens", "8192"], ["--max-num-batched-tokens", "8192"]),
        (["--max-num-batched-tokens=8192"], ["--max-num-batched-tokens=8192"]),
        (["--tokenizer", "org/model"], ["--tokenizer", "org/model"]),
        (["--model", "org/model"], ["--model", "org/model"]),
    ],
)
def test_a_command_line_shows_no_secret(argv: list[str], masked: list[str]) -> None:
    assert mask_argv(argv) == tuple(masked)


def test_a_password_with_an_at_sign_is_masked_whole() -> None:
    assert mask_url("see http://u:p@ss@host:1/x, and https://h/") == "see http://***@host:1/x, and https://h/"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("a\x00b\x08c\x9bd\x7f", "abcd"),
        ("\u202egpj.exe", "gpj.exe"),
        ("a\tb\nc", "a\tb\nc"),
        ("[red]</script>$x$ ü", "[red]</script>$x$ ü"),
    ],
)
def test_no_control_character_survives(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_credentials_behind_a_scheme_of_any_length_are_masked() -> None:
    assert "word" not in mask_url("a" * 500 + "://user:word@host/")


def test_a_key_that_is_given_goes_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)
    assert key_of() is None
    monkeypatch.setenv(API_KEY, "sk-env")
    assert (key_of(), key_of("sk-given")) == ("sk-env", "sk-given")


def test_the_name_of_the_keys_variable_stands_in_one_place() -> None:
    package = Path(secrets.__file__).parent
    stating = [file.name for file in package.rglob("*.py") if f'= "{API_KEY}"' in file.read_text("utf-8")]
    assert stating == ["secrets.py"]
