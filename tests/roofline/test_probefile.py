"""A probe's file whose rate may be partly that of caches is no ceiling; one beside it still is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvdoctor.errors import Misuse
from kvdoctor.roofline.probefile import measured_in


def hbm(rate: float, *, cached: bool) -> dict[str, Any]:
    about = {"conditions": {"possible_cache_reading": cached}}
    return {"probe": "hbm", "device": "CPU", "achieved_bytes_per_s": rate, **about}


def written(folder: Path, *results: dict[str, Any]) -> Path:
    path = folder / "probe.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in results))
    return path


def test_a_rate_that_caches_may_have_answered_is_refused_as_a_ceiling(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="caches may have answered a part of what was read") as caught:
        measured_in(written(tmp_path, hbm(72e9, cached=True)))
    assert "kvdoctor probe decode" in caught.value.hint


def test_one_beside_it_is_taken_though_it_is_slower(tmp_path: Path) -> None:
    found = measured_in(written(tmp_path, hbm(72e9, cached=True), hbm(30e9, cached=False)))
    assert found.bytes_per_s == 30e9
