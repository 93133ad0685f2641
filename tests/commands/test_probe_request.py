"""What one prompt's hit saved, and what its TTFT is made of, under the names of several engines."""

from __future__ import annotations

import pytest

from kvdoctor.commands.probe_request import explained, parts

VLLM = {
    "vllm:time_to_first_token_seconds": 0.0308,
    "vllm:request_queue_time_seconds": 0.0001,
    "vllm:request_prefill_time_seconds": 0.021,
}
SGLANG = {"sglang:time_to_first_token_seconds": 0.0308, "sglang:queue_time_seconds": 0.0001}


def counted(times, requests=1.0, **more):
    """What the counters rose by a request: sums and counts of histograms with these means."""
    sums = {f"{name}_sum": mean * requests for name, mean in times.items()}
    return {**sums, **{f"{name}_count": requests for name in times}, **more}


def row(op, times, cached, counters):
    return {
        "op": op,
        "ttft_seconds": sorted(times)[len(times) // 2],
        "repeats": list(times),
        "prompt_tokens": 733,
        "cached_tokens": cached,
        "counted": counters,
    }


def result(hit, miss=0.158):
    return {"probe": "request", "rows": [row("miss", [miss], [0], {}), hit]}


HIT = (0.030, 0.036, 0.042)


def told(counters):
    return {part["part"]: part["seconds"] for part in parts(row("hit", HIT, [640], counters))}


@pytest.mark.parametrize(
    ("counters", "wanted"),
    [
        (counted(VLLM), {"queue": 0.0001, "prefill": 0.021, "front end": 0.0097, "client": 0.0052}),
        (counted(SGLANG), {"queue": 0.0001, "engine": 0.0307, "client": 0.0052}),
        ({}, {"unexplained": 0.036}),
        ({"somebody_seconds_sum": 1.0}, {"unexplained": 0.036}),
    ],
    ids=["vLLM", "an engine without prefill times", "no counters", "nobody that is known"],
)
def test_the_parts_of_a_hit_add_up_to_its_ttft(counters, wanted):
    found = told(counters)
    assert found == {name: pytest.approx(seconds) for name, seconds in wanted.items()}
    assert sum(found.values()) == pytest.approx(sum(HIT) / len(HIT))


def test_the_answer_says_what_was_saved_and_of_what():
    found = explained(result(row("hit", HIT, [640, 640, 640], counted(VLLM))))["answer"]
    assert found["saved_seconds"] == pytest.approx(0.122)
    assert found["saved_share"] == pytest.approx(0.122 / 0.158)
    assert (found["cached_tokens"], found["cached_by"]) == (640, "usage")
    assert found["others_ran"] is False


def test_where_the_server_tells_no_cached_tokens_the_engines_counter_does():
    counters = counted(VLLM, **{"vllm:prefix_cache_hits_total": 640.0})
    found = explained(result(row("hit", HIT, [None] * 3, counters)))["answer"]
    assert (found["cached_tokens"], found["cached_by"]) == (640, "the engine's counter")


def test_requests_of_others_are_seen():
    found = explained(result(row("hit", HIT, [640], counted(VLLM, requests=3.0))))["answer"]
    assert found["others_ran"] is True
    assert found["parts"][1]["seconds"] == pytest.approx(0.021)


@pytest.mark.parametrize("other", [{"probe": "nvme", "rows": []}, {"probe": "request", "failed": {}}])
def test_other_results_stay_as_they_are(other):
    assert explained(other) is other
