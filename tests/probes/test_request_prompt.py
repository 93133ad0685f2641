"""Prompt files that are none: a sentence without their content, a cure that fits, and line ends as they are."""

from __future__ import annotations

import pytest
from program import Program

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import request
from kvdoctor.probes.request import Options

NOWHERE = "http://127.0.0.1:9"
PLAIN = "--prompt-file FILE of plain text in UTF-8"
BAD = [
    (b"", "is empty", "--prompt-file of a prompt"),
    (b" \n\t\r\n", "holds nothing but white space", "--prompt-file of a prompt"),
    ("\ufeff".encode(), "is empty", "--prompt-file of a prompt"),
    (b"\x7fELF\x02\x00\x00hidden", "is binary: it holds zero bytes", PLAIN),
    (b"hidden caf\xe9 noir", "is not UTF-8: byte 10 begins no letter", "iconv -f LATIN1 -t UTF-8"),
    ("hidden".encode("utf-16"), "is UTF-16", "iconv -f UTF-16 -t UTF-8"),
]


def failed(path):
    """How the probe ends on a file; the server is never asked: nobody is there."""
    with pytest.raises(KvdoctorError) as caught:
        request.run(Options(NOWHERE, str(path)), lambda doing, share: None)
    return caught.value


@pytest.mark.parametrize(("content", "message", "cure"), BAD)
def test_what_is_no_prompt_is_a_sentence_with_its_cure(tmp_path, content, message, cure):
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    found = failed(file)
    assert message in found.message
    assert cure in found.hint
    assert "--tokens" not in found.hint
    assert "hidden" not in found.message + found.hint


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "prompt.txt"
    with file.open("wb") as out:
        out.truncate(100 * 2**20)
    found = failed(file)
    assert "holds 100 MiB, and a prompt is 4 MiB at most" in found.message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/zero", "/dev/zero is no file"),
        ("/", "/ is no file"),
        ("/nowhere/x", "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_file_is_said(path, message):
    assert message in failed(path).message
    assert failed(path).hint == PLAIN


def test_line_ends_reach_the_server_as_they_are(tmp_path):
    """A cache compares tokens: a prompt whose line ends were changed never hits what the service has seen."""
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"one\r\ntwo\rthree\n")
    assert request._prompt(str(file)) == "one\r\ntwo\rthree\n"


@pytest.mark.parametrize(
    ("words", "content", "code", "said"),
    [
        ((), b"", 1, "request failed: "),
        ((), b"\xff", 1, "is not UTF-8"),
        (("--tokens", "0"), b"a", 2, "--tokens 0 is not between 1 and 4096"),
        (("--tokens", "many"), b"a", 2, "--tokens"),
    ],
)
def test_a_bad_file_is_exit_code_1_and_a_bad_option_2(tmp_path, words, content, code, said):
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    ran = Program(tmp_path).run("probe", "request", "--url", NOWHERE, "--prompt-file", str(file), *words)
    assert ran.code == code
    assert said in " ".join((ran.out + ran.err).split())
