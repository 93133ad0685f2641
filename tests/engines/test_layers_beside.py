"""LMCache, Mooncake, NIXL and DCGM: their traps, and what they add to the engine beside them."""

from __future__ import annotations

import pytest
from loads import endpoint
from readings import blank, joined, judged, layer, line

from kvdoctor import metrics as m
from kvdoctor.described import LAYER
from kvdoctor.engines import LAYERS, layers_of, recognise
from kvdoctor.model import Bound, State, Verdict

WORKER = {"model_name": "m", "role": "worker", "worker_id": "0"}
CARD = {"gpu": "0", "UUID": "GPU-1"}


def offload(found):
    """The finding of the offload cause."""
    return next(f for f in found.findings if f.bound is Bound.OFFLOAD)


def evidence(finding, name):
    """The value of a line of evidence; None without one."""
    return next((e.value for e in finding.evidence if e.name == name), None)


def test_lmcache_gives_seconds_milliseconds_and_bytes():
    page = blank(**WORKER).histogram("lmcache:time_to_retrieve", {1.0: 10}, 3.0)
    page.histogram("lmcache:remote_time_to_get", {500.0: 10}, 2200.0)
    page.series("lmcache:local_cache_usage", 2e10).series("lmcache:remote_cache_usage", 1e9)
    seen = line(page, layer("lmcache"))
    assert seen.delta(m.LOAD_SECONDS) == 3
    assert seen.delta(m.TIER_READ_SECONDS) == pytest.approx(2.2)
    assert seen.gauge(m.TIER_USED).last == 2.1e10


def test_lmcache_tokens_per_second_are_no_bandwidth():
    page = blank(**WORKER).histogram("lmcache:retrieve_speed", {65536.0: 3}, 100_000.0)
    assert not any(line(page, layer("lmcache")).has(q) for q in layer("lmcache").signals)


def test_the_hit_rate_that_reads_one_when_idle_is_not_read():
    page = blank(**WORKER).series("lmcache:retrieve_hit_rate", 1.0).series("lmcache:lookup_hit_rate", 0.0)
    assert not any(line(page, layer("lmcache")).has(q) for q in layer("lmcache").signals)


def test_workers_repeat_tokens_and_hold_their_own_bytes():
    page = blank()
    for worker in ("0", "1"):
        page.labels = {**WORKER, "worker_id": worker}
        page.counter("lmcache:num_lookup_hits_total", 100).counter(
            "lmcache:num_remote_read_bytes_total", 4000
        )
    seen = line(page, layer("lmcache"))
    assert seen.delta(m.EXTERNAL_HITS) == 100
    assert seen.delta(m.TIER_READ_BYTES) == 8000


def test_of_the_phases_of_one_transfer_only_the_copy_is_read():
    page = blank()
    for phase, size, seconds in (("staging", 8e9, 1.0), ("kernel", 8e9, 5.0)):
        page.counter("lmcache_mp_transfer_phase_bytes_total", size, phase=phase, direction="h2d")
        page.counter("lmcache_mp_transfer_phase_elapsed_seconds_total", seconds, phase=phase, direction="h2d")
    seen = line(page, layer("lmcache_mp"))
    assert (seen.delta(m.LOAD_BYTES), seen.delta(m.LOAD_SECONDS)) == (8e9, 1.0)


def test_what_mooncake_leaves_out_stands_at_zero():
    page = blank().counter("master_put_start_requests_total", 5)
    seen = line(page, layer("mooncake_master"))
    assert not seen.has(m.TIER_EVICTIONS)
    assert seen.delta(m.TIER_EVICTIONS) == 0
    assert seen.delta(m.TTFT) is None


def test_one_full_segment_is_seen_behind_a_half_empty_pool():
    page = blank().series("master_allocated_bytes", 5e9).series("master_total_capacity_bytes", 10e9)
    for name, used in (("a", 4.9e9), ("b", 0.1e9)):
        page.series("segment_allocated_bytes", used, segment=name)
        page.series("segment_total_capacity_bytes", 5e9, segment=name)
    assert line(page, layer("mooncake_master")).gauge(m.TIER_FILL).last == 0.98


def test_mooncake_clients_and_nixl_tell_microseconds():
    client = blank().histogram("mooncake_transfer_get_latency", {500.0: 4}, 2000.0)
    client.counter("mooncake_transfer_read_bytes", 1e9)
    assert line(client, layer("mooncake_client")).delta(m.TIER_READ_SECONDS) == pytest.approx(0.002)
    agent = blank(agent_name="a").counter("agent_xfer_time_total", 3e6).series("agent_xfer_time", 12)
    agent.counter("agent_rx_bytes_total", 1e9)
    assert line(agent, layer("nixl")).delta(m.TRANSFER_SECONDS) == pytest.approx(3.0)


def test_nixl_s_lost_telemetry_is_said():
    agent = blank(agent_name="a").counter("agent_rx_bytes_total", 1e9)
    agent.counter("agent_telemetry_events_dropped_total", 40)
    found = judged(endpoint(), agent)
    assert any("dropped 40 events" in gap.reason for gap in found.gaps)


def test_tcp_under_a_transfer_engine_shows_as_a_share():
    page = blank().counter("tent_read_bytes_total", 6e9, transport="rdma")
    page.counter("tent_read_bytes_total", 2e9, transport="tcp")
    page.counter("tent_transport_failover_total", 3, **{"from": "rdma", "to": "tcp"})
    seen = line(page, layer("mooncake_tent"))
    assert (seen.delta(m.TRANSFER_BYTES), seen.delta(m.TRANSFER_TCP_BYTES)) == (8e9, 2e9)
    assert seen.delta(m.TRANSFER_FAILOVERS) == 3


def test_a_card_s_blank_is_no_value():
    page = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 9223372036854775794.0)
    assert not line(page, layer("dcgm")).has(m.DRAM_ACTIVE)
    later = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", [9223372036854775794.0] * 30 + [0.5])
    assert line(later, layer("dcgm")).gauge(m.DRAM_ACTIVE).readings == 1


def test_slices_of_a_card_are_not_added_to_the_card():
    page = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 0.69).series("DCGM_FI_PROF_PCIE_RX_BYTES", 5e9)
    page.series("DCGM_FI_PROF_DRAM_ACTIVE", 0.80, GPU_I_PROFILE="1g.5gb", GPU_I_ID="13")
    page.series("DCGM_FI_PROF_PCIE_RX_BYTES", 4e9, GPU_I_PROFILE="1g.5gb", GPU_I_ID="13")
    seen = line(page, layer("dcgm"))
    assert seen.gauge(m.DRAM_ACTIVE).last == 0.69
    assert seen.gauge(m.GPU_PCIE_IN).last == 5e9


def test_slices_alone_are_read():
    page = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 0.80, GPU_I_PROFILE="1g.5gb", GPU_I_ID="13")
    assert line(page, layer("dcgm")).gauge(m.DRAM_ACTIVE).last == 0.80


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"])
def test_utilization_is_percent_under_either_name_and_profiling_is_a_ratio(name):
    page = blank(**CARD).series(name, 87.0)
    assert line(page, layer("dcgm")).gauge(m.ENGINE_ACTIVE).last == pytest.approx(0.87)
    page.series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5)
    assert line(page, layer("dcgm")).gauge(m.ENGINE_ACTIVE).last == 0.5


def test_the_card_s_counter_stands_in_where_no_step_can_be_modelled():
    still = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 0.1)
    busy = blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 0.8)
    verdicts = [
        next(f.verdict for f in judged(endpoint(), page).findings if f.bound is Bound.BANDWIDTH)
        for page in (still, busy)
    ]
    assert verdicts == [Verdict.RULED_OUT, Verdict.POSSIBLE]


def cached(seconds, page=None, **labels):
    """LMCache's families: as many seconds of retrieving in the window."""
    page = page or blank()
    page.labels = {**WORKER, **labels}
    page.histogram("lmcache:time_to_retrieve", {5.0: 100}, seconds)
    page.counter("lmcache:num_lookup_hits_total", 50_000).counter("lmcache:num_lookup_tokens_total", 60_000)
    return page


SLOW = {"first_tokens": 200, "ttft_mean": 1.2, "prefill_mean": 1.1, "e2e_mean": 1.4}


def test_retrieving_inside_the_engine_s_page_is_its_load():
    page = cached(180.0, endpoint(**SLOW))
    found = judged(page)
    assert found.primary is Bound.OFFLOAD
    assert [(t.engine, t.role) for t in found.targets] == [("vllm", None), ("lmcache", LAYER)]
    assert found.ledgers["ttft"].part("kv_load") == pytest.approx(0.9)


def test_a_layer_at_another_address_tells_the_same():
    assert judged(endpoint(**SLOW), cached(180.0)).primary is Bound.OFFLOAD


def test_a_quick_layer_changes_nothing():
    assert judged(cached(1.0, endpoint())).state is judged(endpoint()).state is State.HEALTHY


def test_of_two_layers_that_count_the_same_bytes_one_is_believed():
    cache = blank(**WORKER).counter("lmcache:num_remote_read_bytes_total", 4e9)
    cache.histogram("lmcache:remote_time_to_get", {500.0: 10}, 2000.0)
    client = blank().counter("mooncake_transfer_read_bytes", 4e9)
    client.histogram("mooncake_transfer_get_latency", {5e5: 10}, 1.5e6)
    seen = joined(endpoint(), cache, client)
    assert seen.delta(m.TIER_READ_BYTES) == 4e9
    assert seen.delta(m.TIER_READ_SECONDS) == pytest.approx(2.0)


def test_several_sources_of_one_layer_are_added_up():
    agents = [blank(agent_name=name).counter("agent_rx_bytes_total", 1e9) for name in "ab"]
    assert joined(endpoint(), *agents).delta(m.TRANSFER_BYTES) == 2e9


def test_what_the_engine_tells_itself_is_not_asked_of_a_layer():
    page = endpoint().counter("vllm:kv_offload_load_bytes_total", 5e9)
    seen = joined(page, cached(10.0))
    assert seen.delta(m.LOAD_BYTES) == 5e9
    assert seen.delta(m.LOAD_SECONDS) is None


def test_an_overfull_store_is_evidence_and_no_verdict():
    store = blank().counter("master_evicted_key_count", 50).counter("total_get_nums_", 54)
    store.counter("valid_get_nums_", 37).counter("master_put_start_requests_total", 160)
    store.series("master_allocated_bytes", 2.5e8).series("master_total_capacity_bytes", 2.6e8)
    found = judged(endpoint(), store)
    assert found.state is State.HEALTHY
    assert evidence(offload(found), "evicted from the outer tier") == 50
    assert evidence(offload(found), "lookups that the outer tier answered") == pytest.approx(37 / 54)


def test_a_layer_that_several_engines_share_gives_no_counters_to_any():
    found = judged(endpoint(**SLOW), endpoint(), cached(180.0))
    assert all(f.verdict is not Verdict.LIKELY for f in found.findings if f.bound is Bound.OFFLOAD)
    assert any("several engines were read" in gap.reason for gap in found.gaps)


@pytest.mark.parametrize("page", [cached(180.0), blank(**CARD).series("DCGM_FI_PROF_DRAM_ACTIVE", 0.9)])
def test_a_layer_alone_is_never_healthy_and_never_bound(page):
    found = judged(page)
    assert found.state is State.INSUFFICIENT
    assert found.primary is None
    assert [t.role for t in found.targets] == [LAYER]


def test_a_layer_that_restarted_is_read_from_its_restart_on():
    page = endpoint()
    later = [100.0 + i for i in range(16)] + [float(i) for i in range(15)]
    store = blank().series("mooncake_transfer_read_bytes", later, "counter")
    assert joined(page, store).delta(m.TIER_READ_BYTES) == 14


@pytest.mark.parametrize("name", ["agent_version", "master_ping", "segment_x", "mooncake", "tent"])
def test_common_words_are_no_layer(name):
    assert layers_of([name]) == ()
    assert recognise([name]) is None


@pytest.mark.parametrize("each", LAYERS, ids=lambda each: each.name)
def test_a_layer_speaks_of_movement_and_cards_only(each):
    assert not set(each.signals) & {m.RUNNING, m.WAITING, m.TTFT, m.ITL, m.KV_CACHE_USAGE, m.PREFIX_HITS}
    assert each.layer


def test_without_bytes_a_load_is_slow_when_computing_the_tokens_would_be_quicker():
    found = judged(cached(180.0, endpoint(**SLOW, hits=0, external_hits=50_000, external=50_000)))
    assert found.subclass == "slow_tier"
    assert "longer than computing" in offload(found).argument
