"""The same engine twice, its counters identical: only the cards' counters tell bandwidth from host."""

from __future__ import annotations

import json

import pytest
from loads import Page, endpoint, recording
from modelconfigs import LLAMA_8B
from nvml import scenes
from nvml.reading import recorded

from kvdoctor.diagnose import diagnose
from kvdoctor.model import Bound, State, Verdict

SLOW = {"slo_itl": "0.004"}
"""Steps of 8 ms miss it."""
MODEL = {**SLOW, "gpu": "H200", "model_config": LLAMA_8B}
SECONDS = 12

# 40 sequences of 2,000 tokens in decode, 8 ms a step, a prefix shared by most of them: the model alone finds
# that a step reads 0.5 to 0.8 of what an H200 delivers.
LOAD = {
    "prompt": 1990, "outputs": 21, "first_tokens": 3000, "running": 40, "usage": 0.05, "itl_mean": 0.008,
    "ttft_mean": 0.03, "prefill_mean": 0.02, "e2e_mean": 0.19,
}  # fmt: skip


@pytest.fixture
def found(watch, stage):
    """Diagnose the one load with the cards that a scene plays; `here` goes to the place."""

    def run(*scene: str, facts=SLOW, pages=(), **numbers):
        engine = endpoint(seconds=float(SECONDS), readings=SECONDS + 1, **{**LOAD, **numbers})
        source = recorded(watch(*scene), stage, SECONDS)
        source.texts = {"family": json.dumps({"root": 31004, "engine": "vllm", "url": engine.name})}
        seen = recording(engine, *pages, facts=facts)
        seen.sources.append(source)
        return diagnose(seen)

    return run


def of(diagnosis, bound):
    """The finding on the step of a bound."""
    wanted = (
        f for f in diagnosis.findings if f.bound is bound and f.subclass not in ("tokenizer", "kv_lookup")
    )
    return next(wanted)


def test_gpm_separates_bandwidth_from_host_where_the_engine_tells_the_same(found):
    bandwidth, host = found(*scenes.BANDWIDTH_BOUND), found(*scenes.HOST_BOUND)
    assert bandwidth.ledgers == host.ledgers
    assert bandwidth.quantiles == host.quantiles
    assert (bandwidth.primary, host.primary) == (Bound.BANDWIDTH, Bound.HOST)
    assert of(bandwidth, Bound.HOST).verdict is Verdict.RULED_OUT
    assert of(host, Bound.BANDWIDTH).verdict is Verdict.RULED_OUT
    assert "By GPM's counters HBM moves 92%" in of(bandwidth, Bound.BANDWIDTH).argument
    assert "By GPM's counters no kernel runs for 76%" in of(host, Bound.HOST).argument


def test_time_occupancy_alone_separates_nothing(found):
    """Both runs show 97%: trap 2. Without GPM neither bound may be named."""
    blind = found(*scenes.BEFORE_HOPPER)
    assert blind.primary not in (Bound.BANDWIDTH, Bound.HOST)
    assert of(blind, Bound.BANDWIDTH).verdict is Verdict.NO_DATA
    assert any("HBM traffic and busy SMs are unknown" in gap.reason for gap in blind.gaps)


def test_a_model_that_cannot_decide_is_decided_by_the_counter(found):
    without = found(*scenes.BEFORE_HOPPER, facts=MODEL)
    assert of(without, Bound.BANDWIDTH).verdict is Verdict.POSSIBLE
    counted = of(found(facts=MODEL), Bound.BANDWIDTH)
    assert counted.verdict is Verdict.LIKELY
    assert counted.gaps == ()


def test_model_and_counter_that_differ_by_more_than_a_quarter_are_a_finding(found):
    told = of(found(*scenes.HOST_BOUND, facts=MODEL), Bound.BANDWIDTH)
    assert "the model says otherwise" in told.argument
    assert [gap.source for gap in told.gaps] == ["bandwidth model"]


def test_a_model_that_is_sure_is_doubted_where_the_counter_saw_far_less(found):
    sure = {"facts": MODEL, "usage": 0.8}
    assert of(found(*scenes.BEFORE_HOPPER, **sure), Bound.BANDWIDTH).verdict is Verdict.LIKELY
    assert of(found(**sure), Bound.BANDWIDTH).verdict is Verdict.LIKELY
    doubted = of(found(*scenes.HOST_BOUND, **sure), Bound.BANDWIDTH)
    assert doubted.verdict is Verdict.POSSIBLE
    assert doubted.gaps


@pytest.mark.parametrize(
    ("dram", "verdict"),
    [(65.2, Verdict.POSSIBLE), (65.3, Verdict.LIKELY), (43.4, Verdict.RULED_OUT), (43.6, Verdict.POSSIBLE)],
)
def test_traffic_is_held_against_what_a_read_can_reach(found, dram, verdict):
    """0.75 and 0.5 of 0.87: just below and just above."""
    scene = scenes.activity(engine=99, sm=96, dram=dram)
    assert of(found(*scene), Bound.BANDWIDTH).verdict is verdict


def test_busy_tensor_pipes_leave_the_traffic_to_compute(found):
    scene = scenes.activity(engine=99, sm=96, dram=80, tensor=60)
    assert of(found(*scene), Bound.BANDWIDTH).verdict is Verdict.POSSIBLE


@pytest.mark.parametrize(("engine", "verdict"), [(74.9, Verdict.LIKELY), (75.1, Verdict.RULED_OUT)])
def test_an_idle_card_is_the_hosts_from_a_quarter_on(found, engine, verdict):
    scene = scenes.activity(engine=engine, sm=50, dram=30)
    assert of(found(*scene), Bound.HOST).verdict is verdict


def test_a_card_that_waits_for_its_link_is_not_the_hosts(found):
    busy = of(found(*scenes.HOST_BOUND, "* gpm.21 0 40000"), Bound.HOST)
    assert busy.verdict is Verdict.POSSIBLE
    assert "it may wait for data" in busy.argument


def test_small_kernels_are_no_idle_card(found):
    scene = scenes.activity(engine=98, sm=15, dram=10)
    assert of(found(*scene), Bound.HOST).verdict is Verdict.RULED_OUT


def test_idle_while_nobody_asks_proves_nothing(found):
    mostly = [0.0] * 8 + [40.0] * 5
    assert of(found(*scenes.HOST_BOUND, running=mostly), Bound.HOST).verdict is Verdict.NO_DATA


def test_half_the_time_at_work_is_not_half_the_traffic(found):
    half = [0.0] * 6 + [40.0] * 7
    scene = scenes.activity(engine=50, sm=48, dram=40)
    diagnosis = found(*scene, running=half)
    assert of(diagnosis, Bound.BANDWIDTH).verdict is Verdict.LIKELY
    assert of(diagnosis, Bound.HOST).verdict is Verdict.RULED_OUT


# -- DCGM, where there is no GPM -----------------------------------------------------------------------------------


def exporter(uuid="GPU-00000000", *, dram, engine, changes=True):
    """A page of dcgm-exporter that was refreshed once in the window."""
    page = Page(float(SECONDS), SECONDS + 1, "http://127.0.0.1:9400/metrics", {"gpu": "0", "UUID": uuid})

    def course(value):
        return [value * (0.98 if changes and i < 4 else 1.0) for i in range(SECONDS + 1)]

    page.series("DCGM_FI_PROF_DRAM_ACTIVE", course(dram))
    return page.series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", course(engine))


@pytest.mark.parametrize(
    ("dram", "engine", "primary"), [(0.8, 0.99, Bound.BANDWIDTH), (0.08, 0.24, Bound.HOST)]
)
def test_dcgm_separates_them_before_hopper(found, dram, engine, primary):
    diagnosis = found(*scenes.BEFORE_HOPPER, pages=(exporter(dram=dram, engine=engine),))
    assert diagnosis.primary is primary
    assert "By DCGM's counters" in of(diagnosis, primary).argument


def test_an_exporters_other_cards_are_not_the_engines(found):
    diagnosis = found(*scenes.BEFORE_HOPPER, pages=(exporter("GPU-ffff", dram=0.8, engine=0.99),))
    assert diagnosis.primary is not Bound.BANDWIDTH


def test_a_number_that_was_never_refreshed_names_nothing(found):
    page = exporter(dram=0.8, engine=0.99, changes=False)
    assert found(*scenes.BEFORE_HOPPER, pages=(page,)).primary is not Bound.BANDWIDTH


def test_gpm_goes_before_dcgm(found):
    page = exporter(dram=0.08, engine=0.24)
    assert "By GPM's counters" in of(found(pages=(page,)), Bound.BANDWIDTH).argument


# -- a lost card ---------------------------------------------------------------------------------------------------


def test_a_card_that_falls_off_the_bus_is_the_answer(found):
    diagnosis = found("0 card 8 !15", "0 xid 8 79")
    assert (diagnosis.state, diagnosis.primary, diagnosis.subclass) == (State.BOUND, Bound.DEVICE, "ecc")
    assert "fell off the bus" in " ".join(f.argument for f in diagnosis.findings)
