"""What a log alone is judged to say, and what it adds beside metrics."""

from __future__ import annotations

import pytest
from loglines import LOGS, stats

from kvdoctor.diagnose import diagnose
from kvdoctor.readers import read


@pytest.mark.parametrize(
    ("run", "usage", "named"),
    [(1, 70.0, "capacity"), (1, 30.0, "queueing"), (2, 80.0, "capacity"), (12, 60.0, "queueing")],
)
def test_a_pool_has_room_where_one_more_like_those_that_run_fits(tmp_path, run, usage, named):
    text = "".join(stats(n, prompt=0.0, run=run, wait=9, usage=usage) for n in (7, 17, 27, 37))
    path = tmp_path / "vllm.log"
    path.write_text(text)
    found = diagnose(read([str(path)]))
    assert found.primary_name == named, found.summary
    assert found.confidence.value == ("low" if named == "capacity" else "medium")


@pytest.mark.parametrize(
    ("offered", "ttft", "p99", "named"),
    [
        ("9.0", 12000, 30000, "queueing"),
        ("9.0", 120, 300, "healthy"),
        ("4.1", 12000, 30000, "insufficient_evidence"),
        ("inf", 12000, 30000, "insufficient_evidence"),
    ],
)
def test_what_a_serving_benchmark_prints_is_read(tmp_path, offered, ttft, p99, named):
    path = tmp_path / "bench.txt"
    path.write_text(
        f"Traffic request rate: {offered}\nMaximum request concurrency: None\n== Result ==\n"
        f"Request throughput (req/s):              4.0      \nMean TTFT (ms):     {ttft}.5   \n"
        f"P99 TTFT (ms):   {p99}.0   \nMean TPOT (ms):      21.5     \n"
    )
    found = diagnose(read([str(path)]))
    assert found.primary_name == named, found.summary
    assert found.confidence.value == "low"


def test_a_tier_that_has_no_room_is_named(tmp_path):
    line = "LMCache WARNING: Failed to allocate memory for tensor([2, 8]) because no memory is available\n"
    path = tmp_path / "lmcache.log"
    path.write_text(line * 3)
    found = diagnose(read([str(path)]))
    assert (found.primary_name, found.subclass) == ("offload", "tier_full")
    assert found.confidence.value == "low"


def test_only_what_follows_the_last_start_is_judged(tmp_path):
    start = (
        "INFO 07-18 09:02:00 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'\n"
    )
    before = "".join(stats(s, wait=90, run=2, usage=99.0) for s in range(0, 50, 10))
    after = "".join(stats(s, minute=3) for s in range(0, 50, 10))
    path = tmp_path / "vllm.log"
    path.write_text(before + start + after)
    found = diagnose(read([str(path)]))
    assert found.primary_name == "healthy"
    assert found.window.restarts == 1
    assert (found.targets[0].version, found.targets[0].model) == ("0.32.0", "tiny")


def test_what_lies_over_an_hour_before_the_last_line_is_not_now(tmp_path):
    path = tmp_path / "vllm.log"
    old = "".join(stats(s, wait=90, run=2, usage=99.0) for s in range(0, 50, 10))
    new = "".join(stats(s).replace(" 09:", " 15:") for s in range(0, 50, 10))
    path.write_text(old + new)
    assert diagnose(read([str(path)])).primary_name == "healthy"


def test_the_log_of_a_run_names_what_its_metrics_name():
    for name in ("admission-limit", "kv-too-small", "caching-off"):
        said = diagnose(read([str(LOGS / f"vllm-0.32-{name}.log")]))
        measured = diagnose(read([str(LOGS / f"vllm-0.32-{name}.prom.gz")]))
        assert said.primary_name == measured.primary_name, name
        assert said.confidence.value != "high"


def test_beside_metrics_a_log_is_a_note_and_the_metrics_answer():
    both = [str(LOGS / f"vllm-0.32-admission-limit.{end}") for end in ("log", "prom.gz")]
    found = diagnose(read(both))
    assert found.ledgers
    assert any("as far as a log tells" in note for note in found.notes)


def test_every_number_names_the_line_it_came_from():
    found = diagnose(read([str(LOGS / "vllm-0.32-admission-limit.log")]))
    sources = [e.source for f in found.findings for e in f.evidence if e.value is not None]
    assert sources
    assert any("line " in text for text in sources)
