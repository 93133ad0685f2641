"""Two readings of each engine and layer, made up: what they are diagnosed as, and what may never be said of them."""

from __future__ import annotations

import pytest
from readings import FIXTURES

from kvdoctor.described import LAYER
from kvdoctor.diagnose import diagnose
from kvdoctor.model import Bound, State, Verdict
from kvdoctor.readers import read

# file: state, bound, subclass, targets
EXPECTED = {
    "sglang-0.5.8-pool-full": (State.BOUND, Bound.CAPACITY, "admission", ["sglang"]),
    "tensorrt-llm-1.3-calm": (State.HEALTHY, None, None, ["tensorrt_llm"]),
    "tgi-3.3-reserved": (State.BOUND, Bound.CAPACITY, "admission", ["tgi"]),
    "lmdeploy-0.18-full-of-cache": (State.HEALTHY, None, None, ["lmdeploy"]),
    "llamacpp-one-slot": (State.INSUFFICIENT, None, None, ["llamacpp"]),
    "dynamo-frontend": (State.INSUFFICIENT, None, None, ["dynamo"]),
    "dynamo-vllm-lmcache-slow-tier": (State.BOUND, Bound.OFFLOAD, "no_overlap", ["vllm", "lmcache"]),
    "mooncake-master-overfull": (State.INSUFFICIENT, None, None, ["mooncake_master"]),
    "nixl-agent": (State.INSUFFICIENT, None, None, ["nixl"]),
    "dcgm-busy": (State.INSUFFICIENT, None, None, ["dcgm"]),
}


def found(*names):
    """The diagnosis of some fixtures together."""
    return diagnose(read([str(FIXTURES / f"{name}.prom") for name in names]))


def test_no_fixture_is_left_out():
    assert {path.stem for path in FIXTURES.glob("*.prom")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fixture_is_judged_by_what_it_shows(name):
    state, bound, subclass, engines = EXPECTED[name]
    diagnosis = found(name)
    assert (diagnosis.state, diagnosis.primary, diagnosis.subclass) == (state, bound, subclass)
    assert [target.engine for target in diagnosis.targets] == engines
    assert not diagnosis.window.lifetime


def test_engine_card_and_store_are_one_diagnosis():
    diagnosis = found("sglang-0.5.8-pool-full", "mooncake-master-overfull", "dcgm-busy")
    assert (diagnosis.primary, diagnosis.subclass) == (Bound.CAPACITY, "admission")
    assert [t.engine for t in diagnosis.targets] == ["sglang", "mooncake_master", "dcgm"]
    assert [t.role for t in diagnosis.targets] == [None, LAYER, LAYER]
    bandwidth = next(f for f in diagnosis.findings if f.bound is Bound.BANDWIDTH)
    assert bandwidth.verdict is Verdict.POSSIBLE
    assert bandwidth.evidence[0].value == pytest.approx(0.78)
    offload = next(f for f in diagnosis.findings if f.bound is Bound.OFFLOAD)
    rate = next(e for e in offload.evidence if e.name == "lookups that the outer tier answered")
    assert rate.value == pytest.approx(90 / 300)


def test_the_gauge_that_reads_one_when_idle_changes_nothing():
    text = (FIXTURES / "dynamo-vllm-lmcache-slow-tier.prom").read_text()
    assert "lmcache:retrieve_hit_rate" in text
    assert "hit_rate" not in {f.bound.value for f in found("dynamo-vllm-lmcache-slow-tier").findings
                              if f.verdict is Verdict.LIKELY}  # fmt: skip


def test_a_front_end_and_its_worker_are_told_apart():
    diagnosis = found("dynamo-frontend", "dynamo-vllm-lmcache-slow-tier")
    assert diagnosis.primary is Bound.OFFLOAD
    assert {(t.engine, t.role) for t in diagnosis.targets} == {
        ("vllm", None), ("dynamo", "frontend"), ("lmcache", LAYER)
    }  # fmt: skip
    assert any("300 ms is routing and transport" in note for note in diagnosis.notes)
