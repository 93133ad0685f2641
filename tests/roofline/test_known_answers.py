"""The published figures, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from benchmarks.known_answers import KINDS, verdict
from benchmarks.known_case import Case

SHARED = Path(os.environ.get("KVDOCTOR_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared")
FILES = sorted((SHARED / "known-answers").glob("*.yaml"))
ENTRIES = [entry for file in FILES for entry in yaml.safe_load(file.read_text(encoding="utf-8"))]


@pytest.mark.skipif(not ENTRIES, reason="the published figures are not here")
def test_every_published_figure_is_held(tmp_path: Path) -> None:
    cases = [Case(entry, SHARED / "model-configs", tmp_path) for entry in ENTRIES]
    missed = {case.entry["id"]: found for case in cases if (found := verdict(case)).outcome != "held"}
    assert missed == {}


def test_a_wrong_figure_is_missed_and_a_right_one_held(tmp_path: Path) -> None:
    given = {"layers": 32, "kv_heads": 8, "head_dim": 128, "bytes_per_elem": 2, "tokens": 4096, "batch": 32}
    entry = {"id": "x", "kind": "total", "given": given, "tolerance": 0.0}
    outcomes = [
        verdict(Case(entry | {"expect": {"bytes": size}}, tmp_path, tmp_path)).outcome
        for size in (2**34, 2**35)
    ]
    assert outcomes == ["held", "missed"]


def test_an_unknown_kind_or_a_lacking_entry_is_refused(tmp_path: Path) -> None:
    for entry in ({"id": "x", "kind": "zork"}, {"id": "x", "kind": "total", "expect": {"bytes": 1}}):
        assert verdict(Case(entry, tmp_path, tmp_path)).outcome == "refused"
    assert "zork" not in KINDS
