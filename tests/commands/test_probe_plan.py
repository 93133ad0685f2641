"""Which probes run and with what options, how their ends are told apart, and the table of tiers that follows."""

from __future__ import annotations

import os

import pytest

from kvdoctor.commands import fartier, probe, probing
from kvdoctor.commands.probe_line import OPTIONS, Line
from kvdoctor.commands.probing import Asked
from kvdoctor.errors import Misuse
from kvdoctor.render.probe_text import render


def test_all_is_everything_but_what_is_asked_for_by_name():
    names = probe._names(["all"])
    assert {"hbm", "pcie", "nvme", "network"} <= set(names)
    assert "request" not in names
    assert probe._names(["nvme", "all", "nvme"])[0] == "nvme"


def test_a_probe_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(Misuse) as caught:
        probe._names(["disk"])
    assert "nvme" in caught.value.hint


class Stops:
    """Speaks against a probe from the n-th time on that it is asked."""

    def __init__(self, after):
        self.left = after

    def __call__(self):
        self.left -= 1
        return "the service's mean ITL rose from 40.0 ms to 70.0 ms" if self.left < 0 else ""


@pytest.mark.parametrize(
    ("asked", "how", "text"),
    [
        (
            Asked("nvme", {"path": "/tmp"}, stop=Stops(0)),
            "refused",
            "nvme refused: before it started, the service's mean ITL rose from 40.0 ms to 70.0 ms",
        ),
        (
            Asked("nvme", {"path": "/tmp"}, stop=Stops(1)),
            "ended",
            "nvme ended while it ran: the service's mean ITL rose from 40.0 ms to 70.0 ms",
        ),
        (Asked("pcie", python="/bin/false"), "not available", "pcie not available: /bin/false has no torch"),
    ],
)
def test_what_never_began_was_ended_or_is_not_there_is_told_apart(asked, how, text):
    result = probing.run_one(asked)
    assert result["refused"]["how"] == how
    assert " ".join(render([result]).split()).startswith(text)


@pytest.mark.parametrize("name", ["hbm", "pcie", "nvme", "decode", "network"])
@pytest.mark.parametrize(("url", "shared"), [("http://127.0.0.1:9", True), (None, False)])
def test_beside_a_service_every_probe_keeps_to_bursts(name, url, shared):
    assert OPTIONS[name](Line(url=url))["shared"] is shared


NVME = {
    "probe": "nvme",
    "conditions": {"file_system": "ext4"},
    "rows": [
        {
            "op": "random read",
            "block_bytes": 2**20,
            "queue_depth": 1,
            "bytes_per_s": 1.31072e9,
            "latency_seconds": {"p50": 1e-3, "p99": 1e-2},
        }
    ],
}


def test_the_table_sets_each_fetch_against_computing_it():
    """Llama-3.1-8B stores 131,072 bytes a token: 1,024 of them at 1.31 GB/s take 102.4 ms, and one to begin."""
    found = fartier.table([NVME], "Llama-3.1-8B", "H100", 1)
    assert found["conditions"]["kv_bytes_per_token"] == 131072
    rows = {row["tokens"]: row for row in found["rows"]}
    assert sorted(rows) == [1024, 8192, 32768, 131072]
    assert rows[1024]["fetch_seconds"] == pytest.approx(0.1034)
    assert 0.01 < rows[1024]["recompute_seconds"] < 0.1
    assert rows[1024]["break_even_tokens"] is None or rows[1024]["break_even_tokens"] > 1024


def test_without_a_card_only_the_fetch_is_known():
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("the card of this machine is known")
    row = fartier.table([NVME], "Llama-3.1-8B", None, 1)["rows"][0]
    assert row["recompute_seconds"] is None
    assert row["fetch_seconds"] == pytest.approx(0.1034)


def test_without_a_tier_there_is_no_table():
    found = fartier.table([{"probe": "nvme", "refused": {}}], "Llama-3.1-8B", "H100", 1)
    assert found["refused"]["reason"] == "no tier was measured"
