"""Results of probes as people read them."""

from __future__ import annotations

import pytest

from kvdoctor.render.probe_text import render


def row(op, rate, **more):
    found = {"op": op, "block_bytes": 2**20, "bytes_per_s": rate, "latency_seconds": None, "repeats": [rate]}
    return {**found, "conditions": {}, **more}


def result(name, rows, **more):
    return {"probe": name, "measures": "it", "device": "here", "rows": rows, "conditions": {}, **more}


def test_a_refusal_has_its_cure():
    text = render([{"probe": "pcie", "refused": {"reason": "no GPU", "cure": "elsewhere"}}])
    assert text == "pcie refused: no GPU\n  -> elsewhere\n"


def test_a_row_has_its_rate_and_the_spread_of_its_repeats():
    text = render([result("hbm", [row("read", 3e12, repeats=[2.9e12, 3e12, 3.1e12])])])
    assert "read, 1.00 MiB" in text
    assert "3.00 TB/s  2.90 TB/s to 3.10 TB/s" in text
    assert "a copy moves each byte twice" in text


def test_a_row_with_latencies_shows_median_and_tail():
    about = {"file_bytes": 2**28, "file_system": "xfs", "path": "O_DIRECT"}
    lines = result(
        "nvme",
        [row("random read", 6e9, queue_depth=16, latency_seconds={"p50": 1e-3, "p99": 9e-3})],
        conditions=about,
    )
    text = render([lines])
    assert "random read, 1.00 MiB, depth 16" in text
    assert "p50 1.00 ms, p99 9.00 ms" in text
    assert "256 MiB of random data on xfs, O_DIRECT" in text


@pytest.mark.parametrize(("share", "said"), [(0.5, True), (0.95, False)])
def test_a_machine_with_other_work_gives_lower_bounds(share, said):
    text = render([result("hbm", [row("read", 1e9, conditions={"on_processor": share, "threads": 2})])])
    assert ("lower bounds" in text) is said


def test_loopback_is_not_called_a_network():
    text = render([result("network", [row("transfer", 1e9)], conditions={"loopback": True})])
    assert "loopback never leaves this machine's memory" in text


def test_what_could_not_be_measured_is_listed():
    gap = {"source": "gloo", "reason": "no torch", "cure": "install it"}
    assert "not measured, gloo: no torch\n    -> install it" in render([result("network", [], gaps=[gap])])


def test_a_request_says_what_the_hit_saved_and_what_is_left():
    def once(op, ttft, cached, counted):
        return {
            "op": op,
            "ttft_seconds": ttft,
            "prompt_tokens": 100,
            "cached_tokens": cached,
            "counted": counted,
        }

    rows = [
        once("miss", 0.9, [0], {}),
        once("hit", 0.2, [96, 90], {"vllm:request_queue_time_seconds_sum": 0.15, "x_total": 5.0}),
    ]
    text = render([result("request", rows, saved_seconds=0.7)])
    assert "the hit saved 700 ms of TTFT" in text
    assert "90 of 100 tokens cached" in text
    assert "vllm:request_queue_time_seconds" in text
    assert "x_total" not in text


@pytest.mark.parametrize(
    ("compute", "even", "wins"),
    [(1.0, 0.0, "always"), (1.0, None, "never"), (1.0, 5000.4, "from 5,000"), (None, None, "?")],
)
def test_the_table_says_from_where_a_fetch_wins(compute, even, wins):
    tier = {
        "tier": "disk",
        "tokens": 1024,
        "fetch_seconds": 0.5,
        "recompute_seconds": compute,
        "break_even_tokens": even,
    }
    about = {"model": "m", "kv_bytes_per_token": 131072, "recompute": "modelled"}
    last = render([result("tiers", [tier], conditions=about)]).splitlines()[-1]
    assert last.endswith(wins)


def test_no_line_is_wider_than_80_columns():
    wide = row("sequential write", 1.23e9, queue_depth=16, latency_seconds={"p50": 1.234e-3, "p99": 9.876e-3})
    about = {"file_bytes": 2**28, "file_system": "ext4", "path": "O_DIRECT"}
    assert max(map(len, render([result("nvme", [wide], conditions=about)]).splitlines())) <= 80
