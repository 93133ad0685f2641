"""Results of probes as a page: the tiers as bars, nothing from outside as markup."""

from __future__ import annotations

import re

from kvdoctor.render.probe_html import bars, render


def tier(name, rate, tokens=1024):
    times = {"fetch_seconds": 0.1, "recompute_seconds": 0.2, "break_even_tokens": 0.0}
    return {"tier": name, "tokens": tokens, "bytes_per_s": rate, **times}


TIERS = {
    "probe": "tiers",
    "measures": "fetching",
    "device": "H100",
    "rows": [tier("HBM", 3e12), tier("HBM", 3e12, 8192), tier("disk", 3e9), tier("<b>peer</b>", 1.5e8)],
    "conditions": {},
}


def test_each_tier_is_one_bar_and_ten_times_faster_is_one_step():
    svg = bars(TIERS)
    lengths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert len(lengths) == 3
    step = 360 / 5  # from 100 MB/s to 10 TB/s
    assert abs((lengths[0] - lengths[1]) - 3 * step) < 0.2


def test_the_figure_is_told_in_words_too():
    assert 'aria-label="HBM 3.00 TB/s, disk 3.00 GB/s' in bars(TIERS)


def test_text_from_outside_is_no_markup():
    page = render([TIERS, {"probe": "nvme", "refused": {"reason": "<script>", "cure": "x"}}])
    assert "<b>peer" not in page
    assert "<script" not in page
    assert "Tiers of this machine" in page


def test_columns_that_nothing_fills_are_left_out_and_repeats_are_shown():
    row = {"op": "read", "block_bytes": 2**20, "bytes_per_s": 2e9, "latency_seconds": None, "conditions": {}}
    probe = {"probe": "hbm", "measures": "m", "device": "d", "conditions": {}}
    page = render([{**probe, "rows": [{**row, "repeats": [1e9, 2e9, 3e9]}]}])
    assert "1.00 GB/s to 3.00 GB/s" in page
    assert ">repeats</th>" in page
    assert not re.search(r">(depth|p50|TTFT)</th>", page)


def test_what_is_missing_says_how_and_why():
    gone = {"probe": "pcie", "refused": {"reason": "no GPU", "cure": "go", "how": "not available"}}
    gap = {"source": "gloo", "reason": "no torch", "cure": "install it"}
    network = {
        "probe": "network",
        "measures": "m",
        "device": "d",
        "conditions": {},
        "rows": [],
        "gaps": [gap],
    }
    page = render([gone, network])
    assert "Not available: no GPU." in page
    assert "Not measured, gloo: no torch → install it" in page


def test_rows_that_went_through_the_page_cache_say_so():
    row = {"op": "read", "block_bytes": 1, "bytes_per_s": 1e9, "latency_seconds": None, "repeats": [1e9]}
    rows = [{**row, "conditions": {"path": path}} for path in ("O_DIRECT", "page cache, second reading")]
    about = {"path": "O_DIRECT", "file_bytes": 1, "file_system": "ext4"}
    page = render([{"probe": "nvme", "measures": "m", "device": "d", "rows": rows, "conditions": about}])
    assert ">read</th>" in page
    assert ">read, page cache, second reading</th>" in page


def test_the_page_says_what_the_hit_saved_and_how_recomputing_is_known():
    found = {"miss_seconds": 0.2, "hit_seconds": 0.1, "saved_seconds": 0.1, "saved_share": 0.5}
    found |= {"prompt_tokens": 9, "cached_tokens": 8.0, "others_ran": False}
    found |= {"parts": [{"part": "client", "seconds": 0.1}]}
    row = {"op": "hit", "ttft_seconds": 0.1, "latency_seconds": None, "conditions": {}}
    request = {"probe": "request", "measures": "m", "device": "d", "rows": [row], "conditions": {}}
    tiers = {**TIERS, "conditions": {"recompute": "measured: 5 tokens/s"}}
    page = render([{**request, "answer": found}, tiers])
    assert "The hit saved 100 ms of 200 ms (50%) of TTFT: 8 of 9 tokens" in page
    assert "Recompute measured: 5 tokens/s." in page
