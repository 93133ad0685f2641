"""Results of probes as people read them."""

from __future__ import annotations

import pytest

from kvdoctor.render.probe_text import WIDTH, answer, render


def row(op, rate, **more):
    found = {"op": op, "block_bytes": 2**20, "bytes_per_s": rate, "latency_seconds": None, "repeats": [rate]}
    return {**found, "conditions": {}, **more}


def result(name, rows, **more):
    return {"probe": name, "measures": "it", "device": "here", "rows": rows, "conditions": {}, **more}


def test_a_refusal_has_its_cure():
    text = render([{"probe": "pcie", "refused": {"reason": "no GPU", "cure": "elsewhere"}}])
    assert text == "pcie refused: no GPU\n  -> elsewhere\n"


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("refused", "hbm refused: why"),
        ("ended", "hbm ended while it ran: why"),
        ("not available", "hbm not available: why"),
    ],
)
def test_how_it_came_to_no_result_is_told_apart(how, text):
    assert render([{"probe": "hbm", "refused": {"reason": "why", "cure": "", "how": how}}]) == text + "\n"


def test_no_line_but_a_cure_is_longer_than_the_page():
    reason = "the disk under /mnt/kv is under heavy write: 1.13 GB/s were written in a look of 1 s, and more"
    told = render([{"probe": "nvme", "refused": {"reason": reason, "cure": "wait", "how": "refused"}}])
    loop = result("network", [], conditions={"loopback": True, "shared_with_others": True, "says": reason})
    told += render([{**loop, "measures": "loopback, which is this machine's memory and no network"}])
    assert max(map(len, told.splitlines())) <= WIDTH


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


def test_a_burst_is_told_with_the_buffer_that_it_is_a_part_of():
    about = {"buffer_bytes": 2**27, "last_level_cache_bytes": 2**25, "possible_cache_reading": False}
    text = render([result("hbm", [row("read", 3e10, conditions={"of_bytes": 2**27})], conditions=about)])
    assert "read, 1.00 MiB of 128 MiB" in text
    assert "buffers of 4 x the last-level caches, 32.0 MiB" in text


def test_memory_that_caches_may_have_answered_is_no_ceiling():
    about = {"buffer_bytes": 2**28, "last_level_cache_bytes": None, "possible_cache_reading": True}
    text = render([result("hbm", [row("read", 3e10, conditions={"of_bytes": 2**20})], conditions=about)])
    assert "read, 1.00 MiB  " in text
    assert "may have answered a part of 256 MiB, so this is no ceiling" in " ".join(text.split())


def test_loopback_is_not_called_a_network():
    text = render([result("network", [row("transfer", 1e9)], conditions={"loopback": True})])
    assert "loopback never leaves this machine's memory" in text


def test_what_could_not_be_measured_is_listed():
    gap = {"source": "gloo", "reason": "no torch", "cure": "install it"}
    assert "not measured, gloo: no torch\n    -> install it" in render([result("network", [], gaps=[gap])])


PARTS = [("queue", 0.001), ("prefill", 0.02), ("front end", 0.009), ("client", 0.005)]


def answered(saved=0.122, cached=640, parts=PARTS, others=False):
    found = {
        "miss_seconds": 0.158,
        "hit_seconds": 0.158 - saved,
        "saved_seconds": saved,
        "others_ran": others,
    }
    found |= {"saved_share": saved / 0.158, "prompt_tokens": 733, "cached_tokens": cached}
    return found | {"parts": [{"part": name, "seconds": seconds} for name, seconds in parts]}


def unsaved(outcome):
    return {**answered(cached=0), "outcome": outcome, "saved_seconds": None, "saved_share": None}


def test_a_request_says_what_the_hit_saved_and_what_is_left():
    def once(op, times, cached):
        return {
            "op": op,
            "ttft_seconds": times[0],
            "repeats": times,
            "prompt_tokens": 733,
            "cached_tokens": cached,
        }

    rows = [once("miss", [0.158], [0]), once("hit", [0.036, 0.03, 0.041], [640, 512])]
    text = render([result("request", rows, answer=answered())])
    assert "512 of 733 tokens cached   (30.0 ms to 41.0 ms)" in text
    said = " ".join(text.split())
    assert "The hit saved 122 ms of 158 ms (77%) of TTFT: 640 of 733 tokens were not computed again." in said
    assert "What is left, 35.0 ms in the mean: 1.00 ms waiting in the engine's queue, 20.0 ms prefill" in said
    assert "5.00 ms between the engine and this client." in said
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (unsaved("none"), "There was no hit: all of 733 tokens were computed each time."),
        (unsaved("unknown"), "TTFT was 158 ms at first and 36.0 ms repeated; no saving follows from that."),
        (unsaved("miss hit"), "There was no miss: the first request hit too."),
        (answered(saved=-0.01), "The hit saved nothing of TTFT: 158 ms as a miss, no less as a hit."),
        (answered(cached=None), "The hit saved 122 ms of 158 ms (77%) of TTFT."),
        (
            answered(parts=[("unexplained", 0.04)]),
            "40.0 ms not told apart: the engine counts no TTFT of its own",
        ),
        (answered(others=True), "Other requests ran meanwhile"),
    ],
)
def test_what_a_hit_did_not_do_is_said_too(found, said):
    assert said in " ".join(answer(found))


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
