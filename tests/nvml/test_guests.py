"""MIG, vGPU, WSL, confidential computing, odd memories, clocks and links: what a report says of each."""

from __future__ import annotations

import pytest
from hosts import values
from nvml import scenes
from nvml.reading import read, told, viewed

from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.hostnotes import host_notes
from kvdoctor.target.family import Card

WSL = Setting(is_wsl=True)
EMPTY = "* processes 0 none"


def sentences(view):
    return " ".join(host_notes(view))


# -- MIG -----------------------------------------------------------------------------------------------------------


def test_instances_are_cards_of_their_own_and_the_whole_one_tells_the_rest(watch, stage):
    view = viewed(watch(*scenes.MIG), stage)
    assert [card.title for card in view.cards] == ["GPU 0", "GPU 0 instance 1", "GPU 0 instance 3"]
    whole, first, second = view.cards
    assert whole.activity is None
    assert whole.sm_clock is None
    assert first.total == 71 * scenes.GIB
    assert first.activity is not None
    assert first.activity.dram == pytest.approx(0.7)
    assert second.activity is None
    assert "this MIG instance has no compute instance" in " ".join(gap.reason for gap in view.gaps)
    assert "GPU 0 is cut by MIG" in sentences(view)


def test_only_the_instance_with_a_member_on_it_is_the_engines(watch, stage):
    found = values(read(watch(*scenes.MIG, f"0.1 processes 0 {scenes.PID}:1024"), stage).text)
    assert 'host_gpu_memory_bytes{gpu="0/1"}' in found
    assert 'host_gpu_memory_bytes{gpu="0/3"}' not in found


def test_an_instance_is_named_by_its_uuid(watch, stage):
    found = values(read(watch(*scenes.MIG, cards=(Card(-1, "MIG-bbbb"),)), stage).text)
    assert {key.split('gpu="')[1].split('"')[0] for key in found if "memory_bytes" in key} == {"0/3"}


def test_memory_that_mig_keeps_from_a_container_is_a_gap(watch, stage):
    text = told(read(watch(*scenes.MIG, "0.1 nvmlDeviceGetMemoryInfo 0 !4"), stage))
    assert "GPU 0/1: memory: it may not be read by this user" in text
    assert "NVIDIA_MIG_MONITOR_DEVICES" in text


# -- joined to CUDA's devices by UUID ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "found"),
    [
        (Card(0, "GPU-00000002"), "2"),
        (Card(-1, "GPU-00000001"), "1"),
        (Card(-1, "GPU-0000000"), "0"),
        (Card(1), "1"),
    ],
    ids=["UUID before index", "UUID alone", "start of a UUID, as CUDA_VISIBLE_DEVICES takes", "index alone"],
)
def test_a_card_is_found_by_its_uuid_before_its_index(watch, stage, card, found):
    seen = values(read(watch(cards=(card,), number=3), stage).text)
    assert sorted(key for key in seen if key.startswith("host_gpu_memory_bytes"))[0] == (
        f'host_gpu_memory_bytes{{gpu="{found}"}}'
    )


# -- guests, WSL, confidential computing, shared memory ------------------------------------------------------------


def test_a_vgpu_guest_is_told_less_and_hears_why_once(watch, stage):
    view = viewed(watch(*scenes.VGPU), stage)
    reasons = [gap.reason for gap in view.gaps]
    assert len(reasons) == 2
    assert reasons[0].endswith(": a vGPU guest is not told")
    for what in ("power", "PCIe replays", "ECC errors", "remapped rows", "PCIe traffic"):
        assert what in reasons[0]
    assert reasons[1] == "HBM traffic and busy SMs are unknown: a vGPU guest is given no counters"
    assert "GPU 0 is a vGPU" in sentences(view)
    assert view.cards[0].occupancy == pytest.approx(0.97)


def test_a_card_passed_through_is_read_whole_and_its_tree_is_doubted(watch, stage):
    view = viewed(watch("0 virtualization 0 1"), stage)
    assert view.gaps == ()
    assert "NUMA nodes and PCIe tree are not the real ones" in sentences(view)


def test_wsl_tells_no_processes(watch, stage):
    view = viewed(watch(*scenes.WSL, here=WSL), stage)
    assert any(
        "processes: WSL is not told" in gap.reason or "WSL is not told" in gap.reason for gap in view.gaps
    )
    assert "This is WSL" in sentences(view)
    listed = told(read(watch(EMPTY, here=WSL), stage))
    assert "WSL lists no process, though 100 GiB are in use" in listed


def test_confidential_computing_is_said_for_it_may_be_the_diagnosis(watch, stage):
    view = viewed(watch(*scenes.CONFIDENTIAL), stage)
    assert view.gaps[0].reason.endswith("confidential computing switches the counters off")
    assert (
        "Confidential computing is on: copies to and from GPU 0 pass through encrypted buffers"
        in sentences(view)
    )


def test_a_card_with_the_systems_memory_has_none_of_its_own(watch, stage):
    page = read(watch(*scenes.INTEGRATED), stage)
    assert "memory: this card does not tell" in told(page)
    assert not any(key.startswith("host_gpu_memory_used_bytes") for key in values(page.text))


def test_beside_a_cpu_on_nvlink_c2c_pcie_is_not_the_path(watch, stage):
    view = viewed(watch(*scenes.SUPERCHIP), stage)
    assert view.cards[0].activity is not None
    assert view.cards[0].activity.c2c == 40000 * 2**20
    assert "its PCIe numbers are not the path of KV" in sentences(view)


# -- clocks, links -------------------------------------------------------------------------------------------------


def test_a_link_that_rests_while_idle_is_not_degraded(watch, stage):
    (card,) = viewed(watch(*scenes.SLEEPY_LINK), stage).cards
    assert card.generation == (5, 5)


def test_a_slot_below_the_card_is_seen(watch, stage):
    (card,) = viewed(watch(*scenes.NARROW_SLOT), stage).cards
    assert card.generation == (3, 5)


@pytest.mark.parametrize(
    ("scene", "reason"), [(scenes.HOT, "software_thermal"), (scenes.CAPPED, "power_cap")]
)
def test_what_holds_clocks_down_is_counted_by_the_driver(watch, stage, scene, reason):
    (card,) = viewed(watch(*scene), stage).cards
    assert card.reasons[0] == (reason, pytest.approx(1.0))


def test_a_reason_between_two_readings_is_not_missed(watch, stage):
    scene = ("* rate.270 3.2 1e9", "* rate.270 3.7 0", "* field.270 0 !3")
    (card,) = viewed(watch(*scene), stage).cards
    assert card.reasons == (("hardware_thermal", pytest.approx(0.05)),)
