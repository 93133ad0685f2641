"""Real recordings of vLLM and the answers that are known of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from answers import check_whole

from kvdoctor.diagnose import diagnose
from kvdoctor.model import Confidence, Diagnosis, Metric, Verdict
from kvdoctor.readers import read

SHARED = Path(os.environ.get("KVDOCTOR_SHARED", Path(__file__).resolve().parents[1] / ".." / "shared"))
REAL = SHARED / "recordings"


def real(name: str) -> Diagnosis:
    path = REAL / f"vllm-0.32-cpu-{name}.prom.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return diagnose(read([str(path)]))


@pytest.mark.parametrize(
    ("name", "primary", "subclasses", "confidence"),
    [
        ("healthy", "healthy", {None}, {Confidence.MEDIUM}),
        ("salted-prefix", "compute", {"prefill"}, {Confidence.MEDIUM, Confidence.LOW}),
        ("kv-too-small", "capacity", {"preemption"}, set(Confidence)),
        ("overload", "queueing", {"admission_limit"}, set(Confidence)),
        ("pd-slow-network", "network", {"used_badly", "handover"}, {Confidence.LOW}),
    ],
)
def test_a_real_recording_has_its_right_answer(name, primary, subclasses, confidence):
    found = real(name)
    check_whole(found)
    assert found.primary_name == primary
    assert found.subclass in subclasses
    assert found.confidence in confidence


def test_the_real_healthy_one_says_that_bandwidth_was_not_judged():
    assert any("bandwidth not judged" in reason for reason in real("healthy").confidence_reasons)


def test_the_real_salted_one_leaves_hit_rate_open():
    found = real("salted-prefix")
    (open_,) = (f for f in found.findings if f.subclass == "prefix_mismatch")
    assert open_.verdict is Verdict.POSSIBLE
    assert "0 to" in open_.argument


@pytest.mark.parametrize("name", ["healthy", "salted-prefix", "overload"])
def test_on_real_recordings_littles_law_agrees_with_the_queue_histogram(name):
    found = real(name)
    (queue,) = (p for p in found.ledgers[Metric.TTFT.value].parts if p.name == "queue")
    if queue.seconds > 0.05:
        assert any("agree" in reason and "disagree" not in reason for reason in found.confidence_reasons)


def test_on_a_real_recording_the_wait_for_kv_is_that_of_the_transfer():
    found = real("pd-slow-network")
    assert found.ledgers["ttft"].part("kv_wait") == pytest.approx(1.84, rel=0.05)
    assert found.targets[0].role == "decode"
