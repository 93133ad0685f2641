"""Reports go where they were asked to, never over anything else, in any locale and width."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
import replay
from diagnosis_capacity import CAPACITY
from program import PROGRAM, Program

from kvdoctor.commands.output import FAILED_ON, Output, show
from kvdoctor.errors import KvdoctorError, Misuse
from kvdoctor.model import Bound

RECORDED = str(replay.RECORDINGS / "kv-too-small.prom.gz")
FULL = Path("/dev/full")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [(None, 0), ("capacity", FAILED_ON), ("network, device", FAILED_ON), ("queueing", 0), ("healthy", 0)],
)
def test_fail_on_asks_for_the_primary_and_for_what_contributes(
    fail_on: str | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = dataclasses.replace(CAPACITY, contributing=((Bound.NETWORK, "slow_link"),))
    assert diagnosis.primary is Bound.CAPACITY
    assert show(diagnosis, Output(fail_on=fail_on)) == code
    assert capsys.readouterr().out


@pytest.mark.parametrize("names", ["", ",", "nonsense", "Capacity", "capacity,nonsense", "bound"])
def test_a_bound_that_does_not_exist_is_misuse(names: str) -> None:
    with pytest.raises(Misuse):
        Output(fail_on=names).check()


PAGE = replay.pages("healthy")[0]
KEPT: dict[str, bytes] = {
    "a recording": b"kvdoctor recording 1\nx",
    "a packed one": gzip.compress(PAGE),
    "a page": PAGE,
    "a series": b"#@ 1 1\n" + PAGE,
    "a config": b'{"model_type": "llama"}',
    "notes": b"do not lose me",
}


@pytest.mark.parametrize("option", ["json", "html", "markdown"])
@pytest.mark.parametrize("kind", KEPT)
def test_nothing_but_a_report_is_written_over(kind: str, option: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(KEPT[kind])
    with pytest.raises(KvdoctorError, match="exists and is no"):
        Output(**{option: str(there)}).check()
    assert there.read_bytes() == KEPT[kind]


@pytest.mark.parametrize("option", ["json", "html", "markdown"])
def test_an_earlier_report_and_an_empty_file_are_written_over(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(**{option: str(tmp_path / "report")})
    (tmp_path / "report").touch()
    for _ in range(2):
        output.check()
        assert show(CAPACITY, output) == 0
    assert (tmp_path / "report").stat().st_size > 1000
    assert capsys.readouterr().err.count("report written") == 2


def test_a_folder_that_is_not_there_is_found_out_before_anything_is_read(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "no" / "report"):
        with pytest.raises(KvdoctorError):
            Output(html=str(where)).check()


def test_what_cannot_be_written_keeps_no_other_report_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(html=str(tmp_path / "no" / "report"), json=str(tmp_path / "report.json"))
    with pytest.raises(KvdoctorError, match="cannot be written: No such file"):
        show(CAPACITY, output)
    assert json.loads((tmp_path / "report.json").read_text())
    assert capsys.readouterr().out.startswith("Bound by capacity")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("option", ["--json", "--html", "--markdown"])
def test_a_full_disk_is_a_sentence_and_the_answer_is_shown(option: str, program: Program) -> None:
    ran = program.run("report", RECORDED, option, str(FULL))
    assert ran.code == 1
    assert ran.out.startswith("Bound by capacity")
    assert "/dev/full cannot be written: No space left on device\n  try: " in ran.err


def test_no_half_of_a_report_is_left(program: Program) -> None:
    ran = program.run("report", RECORDED, "--json", "r.json", largest=4000)
    assert ran.code == 1
    assert not (program.folder / "r.json").exists()


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "C without coercion": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "NO_COLOR": {"NO_COLOR": "1"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_any_locale_shows_the_report(name: str, tmp_path: Path) -> None:
    page = PAGE.replace(b'model_name="tiny"', 'model_name="modèle ☃"'.encode())
    (tmp_path / "naïve.prom").write_bytes(page)
    program = Program(tmp_path, **ENVIRONMENTS[name])
    for words in ((), ("--markdown",)):
        ran = program.run("report", "naïve.prom", *words)
        assert (ran.code, ran.err) == (0, "")
        assert "\x1b" not in ran.out
        assert "mod" in ran.out


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("0", 80)])
def test_a_report_keeps_to_the_width_it_has(columns: str, width: int, tmp_path: Path) -> None:
    ran = Program(tmp_path, COLUMNS=columns).run("report", RECORDED)
    lines = ran.out.splitlines()
    names = [line for line in lines if "vllm:" in line or "kv-too-small" in line]
    assert len(lines) > 40
    assert max(len(line) for line in lines if line not in names) <= width


def test_an_export_steers_no_terminal_and_elsewhere_is_what_was_read(tmp_path: Path) -> None:
    page = (
        b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m\x1b]0;x\x07"} 1\n'
    )
    (tmp_path / "page.prom").write_bytes(page)
    words = [*PROGRAM, "export", str(tmp_path / "page.prom")]
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as terminal:
        subprocess.run(words, stdout=theirs, check=True, cwd=tmp_path)
        os.close(theirs)
        shown = terminal.read(4096)
    assert b'model_name="m"' in shown
    assert b"\x1b" not in shown
    assert b"\x1b]0;x" in subprocess.run(words, capture_output=True, check=True, cwd=tmp_path).stdout
