"""From results of probes to the tiers that they tell of."""

from __future__ import annotations

from kvdoctor.probes.tiers import reaches


def row(op, rate, block=2**20, **more):
    latency = more.pop("p50", None)
    seconds = {"p50": latency, "p99": latency} if latency else None
    return {
        "op": op,
        "block_bytes": block,
        "bytes_per_s": rate,
        "latency_seconds": seconds,
        "conditions": {},
        **more,
    }


HBM = {"probe": "hbm", "measures": "HBM", "achieved_bytes_per_s": 3e12, "rows": [row("copy", 9e12)]}
PCIE = {
    "probe": "pcie",
    "rows": [
        row("pinned", 50e9, direction="h2d"),
        row("pinned", 60e9, direction="d2h"),
        row("blocks one by one", 8e9, 2**15, direction="h2d"),
    ],
}
NVME = {
    "probe": "nvme",
    "conditions": {"file_system": "xfs"},
    "rows": [
        row("random read", 2e9, queue_depth=1, p50=1e-4),
        row("random read", 6e9, queue_depth=16, p50=1e-3),
        row("sequential read", 9e9, queue_depth=1, p50=1e-4),
    ],
}
NETWORK = {
    "probe": "network",
    "conditions": {"loopback": False},
    "rows": [
        row("message", 1e6, p50=2e-5),
        {**row("transfer", 1e9, direction="from peer"), "conditions": {"streams": 4}},
        {**row("transfer", 7e9, direction="to peer"), "conditions": {"streams": 4}},
    ],
}


def test_each_tier_is_as_fast_as_kv_comes_back_from_it():
    found = [(reach.name, reach.bytes_per_s, reach.start_s) for reach in reaches([NETWORK, NVME, PCIE, HBM])]
    assert found == [
        ("HBM", 3e12, 0.0),
        ("CPU memory, large copies", 50e9, 0.0),
        ("CPU memory, block by block", 8e9, 0.0),
        ("disk (xfs)", 6e9, 1e-4),
        ("peer, TCP", 1e9, 2e-5),
    ]


def test_only_a_gpus_own_link_is_split_over_ranks():
    assert [reach.per_rank for reach in reaches([NETWORK, NVME, PCIE, HBM])] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_what_was_not_measured_is_no_tier():
    assert reaches([{"probe": "request", "rows": []}, {**NVME, "rows": []}, {**NETWORK, "rows": []}]) == ()


def test_memory_that_caches_may_have_answered_is_called_so():
    about = {"conditions": {"possible_cache_reading": True}}
    found = reaches([{**HBM, "measures": "system memory", **about}])[0]
    assert found.name == "system memory or its caches"
    assert "the caches are not known" in found.source
    assert reaches([{**HBM, "conditions": {"possible_cache_reading": False}}])[0].name == "HBM"
