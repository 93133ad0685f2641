"""How fast an engine prefills: from one miss, from its histograms; and the table of tiers that follows from it."""

from __future__ import annotations

import pytest
from loads import load

from kvdoctor.commands import fartier
from kvdoctor.commands.prefill_rate import Prefill, measured, of_request, of_source
from kvdoctor.roofline.prefill import flops
from kvdoctor.roofline.source import shape_of

MODEL = "Llama-3.1-8B"
DISK = {
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


def request(cached=(0,), counted=None, tokens=2048, ttft=0.6):
    """A result of `request` with a miss of these."""
    miss = {
        "op": "miss",
        "prompt_tokens": tokens,
        "cached_tokens": list(cached),
        "ttft_seconds": ttft,
        "counted": counted or {},
    }
    return {"probe": "request", "rows": [miss]}


VLLM = {"vllm:request_prefill_time_seconds_sum": 0.5, "vllm:request_prefill_time_seconds_count": 1.0}
LAB = {"kvlab:request_prefill_time_seconds_sum": 1.0, "kvlab:request_prefill_time_seconds_count": 2.0}


@pytest.mark.parametrize(
    ("result", "tokens", "seconds", "who"),
    [
        (request(counted=VLLM), 2048, 0.5, "by the engine's prefill counter"),
        (request(counted=LAB), 2048, 0.5, "by the engine's prefill counter"),
        (request(), 2048, 0.6, "an upper bound"),
        (request(counted={"other_total": 1.0}), 2048, 0.6, "an upper bound"),
        (request(cached=(48,)), 2000, 0.6, "an upper bound"),
        (request(cached=(None,)), 2048, 0.6, "an upper bound"),
        (
            request(cached=(None,), counted={**VLLM, "vllm:prefix_cache_hits_total": 48.0}),
            2000,
            0.5,
            "counter",
        ),
        (
            request(counted={**VLLM, "vllm:time_to_first_token_seconds_count": 3.0}),
            2048,
            0.6,
            "an upper bound",
        ),
    ],
)
def test_a_miss_tells_by_the_engines_own_time_else_by_its_ttft(result, tokens, seconds, who):
    found = of_request([result])
    assert found is not None
    assert (found.computed, found.seconds) == (tokens, seconds)
    assert who in found.source


@pytest.mark.parametrize("result", [request(cached=(2048,)), request(tokens=None), DISK])
def test_what_computed_nothing_tells_nothing(result):
    assert of_request([result]) is None


def test_an_engine_tells_by_its_histograms_since_it_started():
    source = load(
        first_tokens=200, prompt=1000, computed=200 * 250, computed_before=200_000, prefill_mean=0.125
    ).sources[0]
    found = of_source(source)
    assert found is not None
    assert found.seconds == pytest.approx(0.125)
    assert found.computed == pytest.approx(250, rel=0.01)
    assert found.cached == pytest.approx(750, rel=0.01)
    assert found.source.startswith("prefill histogram of ")


def test_what_was_measured_is_said_with_its_rate():
    says = Prefill(2048.0, 0.0, 0.5, "the miss").says
    assert says == "measured: 4,096 tokens/s, 2,048 tokens in 500 ms (the miss)"


def table(prefill, gpu="H100"):
    found = fartier.table([DISK], MODEL, gpu, 1, prefill)
    return found["conditions"], {row["tokens"]: row for row in found["rows"]}


def test_recomputing_takes_as_long_as_it_was_measured_to():
    """1,024 tokens measured in 0.2 s take 0.2 s; 8,192 of them as much longer as their FLOPs are more."""
    about, rows = table(Prefill(1024.0, 0.0, 0.2, "the miss"))
    shape = shape_of(MODEL)
    assert about["recompute"].startswith("measured: 5,120 tokens/s")
    assert about["recompute_is_measured"] is True
    assert rows[1024]["recompute_seconds"] == pytest.approx(0.2)
    more = flops(shape, new=8192) / flops(shape, new=1024)
    assert more > 8
    assert rows[8192]["recompute_seconds"] == pytest.approx(0.2 * more)
    assert rows[1024]["fetch_seconds"] == pytest.approx(0.1034)


def test_the_break_even_follows_from_what_was_measured():
    """A token fetched takes 0.1 ms, behind 1 ms to begin; one computed takes about 0.2 ms: even at 10 tokens."""
    _, fast = table(Prefill(1024.0, 0.0, 0.2, "the miss"))
    assert fast[1024]["break_even_tokens"] == pytest.approx(10.4, rel=0.05)
    _, slow = table(Prefill(1024.0, 0.0, 0.05, "the miss"))
    assert slow[1024]["break_even_tokens"] is None or slow[1024]["break_even_tokens"] > 1024


def test_measured_goes_before_modelled_and_needs_no_card():
    modelled, _ = table(None)
    assert modelled["recompute"] == "modelled: 50% of the card's dense peak"
    assert modelled["recompute_is_measured"] is False
    without, rows = table(Prefill(1024.0, 0.0, 0.2, "the miss"), gpu=None)
    assert without["recompute_is_measured"] is True
    assert rows[1024]["recompute_seconds"] == pytest.approx(0.2)


def test_a_prefix_that_was_cached_is_not_taken_for_computed():
    """Computing 1,000 tokens behind 7,000 cached ones is more work than 1,000 alone, so the pace is higher."""
    alone, _ = table(Prefill(1000.0, 0.0, 0.2, "x")), None
    behind, _ = table(Prefill(1000.0, 7000.0, 0.2, "x")), None
    assert behind[1][8192]["recompute_seconds"] < alone[1][8192]["recompute_seconds"]


def test_tensor_parallel_ranks_keep_the_measured_time():
    found = fartier.table([DISK], MODEL, None, 4, Prefill(1024.0, 0.0, 0.2, "the miss"))
    assert found["rows"][0]["recompute_seconds"] == pytest.approx(0.2)


def test_the_miss_goes_before_the_engines_histograms():
    found = measured([request(counted=VLLM)], "http://127.0.0.1:9")
    assert found is not None
    assert "miss" in found.source
