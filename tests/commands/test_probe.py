"""`kvdoctor probe` as a user runs it: cost first, refusals with their cure, files, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest
from program import Program


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def test_without_a_probe_the_cost_of_each_is_listed_and_nothing_is_measured(program):
    ran = program.run("probe")
    assert ran.code == 0
    for name in ("hbm", "pcie", "nvme", "network", "request"):
        assert re.search(rf"^{name}: up to ", ran.out, flags=re.MULTILINE)
    assert "Nothing was measured" in ran.out


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="a GPU is here")
def test_without_a_gpu_pcie_is_refused_in_a_sentence(program):
    ran = program.run("probe", "pcie", "--json")
    assert ran.code == 1
    reason = json.loads(ran.out)["refused"]["reason"]
    assert "no GPU" in reason or "no torch" in reason


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["hbn"], "there is no probe 'hbn'"),
        (["request"], "request sends a real prompt to a service"),
        (["network", "--peer", "host"], "--peer host is no HOST:PORT"),
        (["network", "--peer", "127.0.0.1:99999"], "--peer 127.0.0.1:99999 is no HOST:PORT"),
        (["network", "--serve", "--port", "70000"], "there is no port 70000"),
        (["network", "--serve", "--seconds", "inf"], "--seconds inf is not above 0"),
        (["network", "--streams", "0"], "--streams 0 is not between 1 and 64"),
        (["hbm", "--seconds", "nan"], "--seconds nan is not above 0"),
        (["nvme", "--block", "0"], "--block is above 0"),
        (["nvme", "--block", "10GiB"], "64 MiB at most"),
        (["hbm", "--serve"], "--serve is the network probe's"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(program, words, text):
    ran = program.run("probe", *words)
    assert ran.code == 2
    assert text in ran.err


def test_a_python_that_is_none_is_a_clear_line(program):
    ran = program.run("probe", "hbm", "--python", "/nowhere/python")
    assert ran.code == 1
    assert "hbm failed: /nowhere/python is no program that we may run" in ran.out


def test_out_of_time_is_a_clear_line(program):
    ran = program.run("probe", "network", "--seconds", "0.5")
    assert ran.code == 1
    assert "network failed: the probe did not end within" in ran.out


def test_a_file_of_somebody_else_is_not_written_over(program, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    ran = program.run("probe", "nvme", "--path", "/nowhere", "--json", "mine.txt")
    assert ran.code == 1
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(program):
    ran = program.run("probe", "hbm", "--html", "/nowhere/page.html")
    assert ran.code == 1
    assert "/nowhere/page.html cannot be written" in ran.err
    assert "loads" not in ran.err


def test_a_disk_that_is_full_in_the_end_keeps_no_result_back(program):
    ran = program.run("probe", "nvme", "--path", "/nowhere", "--json", "/dev/full")
    assert ran.code == 1
    assert "nvme refused: /nowhere is not a folder" in ran.out
    assert "/dev/full cannot be written: No space left" in ran.err


def test_both_ends_by_hand(program):
    peer = program.start("probe", "network", "--serve", "--seconds", "50", stderr=subprocess.PIPE)
    assert peer.stderr is not None
    address = re.search(rb"this machine only at (\S+) for", peer.stderr.readline())
    assert address
    ran = program.run("probe", "network", "--peer", address[1].decode(), "--streams", "2", "--json")
    peer.send_signal(signal.SIGINT)
    peer.communicate(timeout=60)
    assert ran.code == 0, ran.out
    assert json.loads(ran.out)["device"] == address[1].decode()


def test_others_are_not_served_without_a_token(program):
    ran = program.run("probe", "network", "--serve", "--bind", "0.0.0.0")
    assert ran.code == 1
    assert "no token keeps them out" in ran.err
