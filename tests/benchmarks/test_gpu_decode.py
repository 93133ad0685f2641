"""The check of the decode kernels, on the CPU's own kernels; and that a part that fails is said and ends nothing."""

from __future__ import annotations

import json
import math
import time

import pytest

pytest.importorskip("torch")

from benchmarks import gpu_decode
from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.reference.kvformat import FORMATS


@pytest.mark.parametrize("kv", FORMATS)
def test_the_check_itself_is_right_for_every_format(kv, monkeypatch):
    """Held against float64 over the stored values, only rounding is left: 1e-5 in fp32."""
    monkeypatch.setattr(gpu_decode, "LENGTHS", (0, 1, 17, 100))
    assert gpu_decode.error(kv, 16, 4, device="cpu", dtype="fp32") < 1e-5


def test_the_check_sees_a_kernel_that_is_wrong(monkeypatch):
    monkeypatch.setattr(gpu_decode, "LENGTHS", (1, 17, 100))
    right = gpu_decode.attend
    monkeypatch.setattr(gpu_decode, "attend", lambda *given: right(*given) * 1.05)
    assert gpu_decode.error("fp32", 16, 4, device="cpu", dtype="fp32") > gpu_decode.MOST_ERROR


def told(monkeypatch, failure=None, worst=0.0):
    def error(kv, page, group):
        if failure is not None and kv == "int8":
            raise failure
        return worst

    monkeypatch.setattr(gpu_decode, "error", error)
    lines = []
    good = gpu_decode.kernels(lines.append, math.inf)
    return good, lines


@pytest.mark.parametrize("failure", [RuntimeError("no such kernel"), KvdoctorError("not here")])
def test_a_kernel_that_fails_ends_nothing(monkeypatch, failure):
    good, lines = told(monkeypatch, failure)
    assert not good
    assert len(lines) == 2 * len(FORMATS)
    assert [line["kernel"] for line in lines if "failed" in line] == ["int8", "int8"]


@pytest.mark.parametrize(
    ("worst", "good"), [(gpu_decode.MOST_ERROR * 0.99, True), (gpu_decode.MOST_ERROR, False)]
)
def test_errors_must_be_small(monkeypatch, worst, good):
    assert told(monkeypatch, worst=worst)[0] is good


def test_without_time_nothing_is_begun(monkeypatch):
    monkeypatch.setattr(gpu_decode, "error", lambda *given: pytest.fail("it began"))
    lines = []
    assert not gpu_decode.kernels(lines.append, time.monotonic() - 1)
    assert {line["failed"] for line in lines} == {"no time left"}


def test_a_case_that_fails_is_said_and_the_next_one_runs(monkeypatch):
    def run(options, tell):
        raise Unavailable("three layers of this shape take more than is here")

    monkeypatch.setattr(gpu_decode.decode, "run", run)
    monkeypatch.setattr(gpu_decode.torch.cuda, "empty_cache", lambda: None)
    lines = []
    assert gpu_decode.case(32, 32768, lines.append) is None
    assert lines[0]["failed"].startswith("Unavailable: three layers")


def test_what_is_known_is_in_the_file_at_once(tmp_path, capsys):
    file = tmp_path / "out"
    say = gpu_decode.sayer(file)
    say({"one": 1})
    assert json.loads(file.read_text()) == {"one": 1}
    say({"two": 2})
    assert len(file.read_text().splitlines()) == len(capsys.readouterr().out.splitlines()) == 2
