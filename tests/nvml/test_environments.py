"""Counters that lie, containers, pid namespaces: what a report says then, in gaps and in sentences."""

from __future__ import annotations

import pytest
from hosts import values, write
from nvml import scenes
from nvml.reading import read, told, viewed

from kvdoctor.collectors.nvml_setting import Setting, setting
from kvdoctor.errors import Refused
from kvdoctor.hostnotes import host_notes

INSIDE, WSL, ADMIN = Setting(is_inside=True), Setting(is_wsl=True), Setting(admin_only=True)
EMPTY = "* processes 0 none"


def sentences(view):
    return " ".join(host_notes(view))


# -- bare metal ----------------------------------------------------------------------------------------------------


def test_on_bare_metal_everything_is_told(watch, stage):
    view = viewed(watch(), stage)
    (card,) = view.cards
    assert card.activity is not None
    assert (card.activity.dram, card.activity.sm) == (pytest.approx(0.80), pytest.approx(0.96))
    assert card.activity.seconds == 10
    assert card.peak == pytest.approx(3201e6 * 2 * 6144 / 8)
    assert (card.link, card.link_source) == (1000 * 2**20, "GPM PCIe counters")
    assert card.watts == pytest.approx(500)
    assert "GPU 0, counted by GPM over the window: HBM moved data 80%" in sentences(view)
    assert view.gaps == ()


def test_before_hopper_hbm_traffic_is_unknown_and_windows_tell_of_the_link(watch, stage):
    view = viewed(watch(*scenes.BEFORE_HOPPER), stage)
    (card,) = view.cards
    assert card.activity is None
    assert card.peak == pytest.approx(2039e9, rel=0.001)
    assert (card.link, card.link_source) == (1e9, "NVML windows of 20 ms")
    (gap,) = view.gaps
    assert gap.reason == "HBM traffic and busy SMs are unknown: the card has no GPM, which came with Hopper"
    assert "dcgm-exporter" in gap.cure


def test_a_driver_that_keeps_profiling_to_administrators_is_part_of_the_cure(watch, stage):
    assert "RmProfilingAdminOnly: 1" in told(read(watch(*scenes.BEFORE_HOPPER, here=ADMIN), stage))
    assert told(read(watch(here=ADMIN), stage)) == ""


# -- GPM, believed only where it proves to work --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("* gpm 0 0",), "the card has no GPM"),
        (("* nvmlGpmSampleGet 0 !3",), "claims GPM, and then does not sample it"),
        (("* gpm.1 0 !3", "* gpm.2 0 !3", "* gpm.10 0 !3"), "claims GPM, and then gives no value"),
        (("* gpm.1 0 nan", "* gpm.2 0 nan", "* gpm.10 0 nan"), "claims GPM, and then gives no value"),
        (("* gpm.1 0 1e9", "* gpm.2 0 -5", "* gpm.10 0 4000"), "claims GPM, and then gives no value"),
        (("* nvmlGpmSampleGet 0 !4",), "it may not be read by this user"),
        (("* nvmlGpmQueryDeviceSupport 0 !3",), "this card does not tell"),
    ],
    ids=["none", "claimed only", "no value", "no number", "garbage", "forbidden", "not even asked"],
)
def test_a_gpm_that_does_not_work_is_a_gap_and_never_a_number(watch, stage, lines, reason):
    page = read(watch(*lines), stage, 3)
    assert reason in told(page)
    assert "HBM traffic and busy SMs are unknown" in told(page)
    assert not any("dram_active" in key for key in values(page.text))


def test_a_gpm_that_stands_at_zero_while_kernels_run_is_not_believed(watch, stage):
    view = viewed(watch(*scenes.IDLE), stage)
    assert view.cards[0].activity is None
    assert "stands at zero although kernels ran" in view.gaps[0].reason


def test_an_idle_card_may_stand_at_zero(watch, stage):
    view = viewed(watch(*scenes.IDLE, "* occupancy 0 0"), stage)
    assert view.cards[0].activity is not None
    assert view.gaps == ()


def test_one_metric_that_fails_takes_no_other(watch, stage):
    found = values(read(watch("0 gpm.5 0 !3", "0 gpm.10 0 nan"), stage, 3).text)
    assert found['host_gpu_sm_active_ratio{gpu="0"}'] == pytest.approx(0.96)
    assert not any("tensor" in key or "dram" in key for key in found)


def test_samples_a_moment_apart_are_no_pair(watch, stage):
    place = watch()
    place.read()
    stage.at(0.05)
    assert not any("dram_active" in key for key in values(place.read().text))
    stage.at(0.2)
    assert values(place.read().text)['host_gpu_dram_active_ratio{gpu="0"}'] == pytest.approx(0.8)


def test_rates_of_links_are_bytes_and_keep_their_directions(watch, stage):
    found = values(read(watch("0 gpm.60 0 7", "0 gpm.61 0 9"), stage).text)
    assert found['host_gpu_pcie_bytes_per_second{gpu="0",direction="transmit"}'] == 100 * 2**20
    assert found['host_gpu_pcie_bytes_per_second{gpu="0",direction="receive"}'] == 1000 * 2**20
    assert found['host_gpu_nvlink_bytes_per_second{gpu="0",direction="receive"}'] == 7 * 2**20
    assert found['host_gpu_nvlink_bytes_per_second{gpu="0",direction="transmit"}'] == 9 * 2**20


# -- containers and pid namespaces ---------------------------------------------------------------------------------


def test_in_a_container_an_empty_list_is_no_idle_card(watch, stage):
    text = told(read(watch(EMPTY, here=INSIDE), stage))
    assert "100 GiB are in use: processes exist outside this container's pid namespace" in text
    assert "--pid=host" in text


def test_a_list_of_strangers_only_accuses_nobody(watch, stage):
    view = viewed(watch("* processes 0 4711:1024,4712:none", here=INSIDE), stage)
    assert view.cards[0].foreign == ()


def test_memory_that_is_not_told_is_no_zero(watch, stage):
    found = values(read(watch(f"* processes 0 {scenes.PID}:none"), stage).text)
    assert found[f'host_gpu_process{{gpu="0",pid="{scenes.PID}",member="true"}}'] == 1
    assert not any(key.startswith("host_gpu_process_bytes") for key in found)


def test_numbers_that_are_no_pids_are_a_fault_of_the_driver(watch, stage):
    page = read(watch(f"* processes 0 {scenes.PID}:1024,4294967295:0"), stage)
    assert "early R535" in told(page)
    assert not any("4294967295" in key for key in values(page.text))


@pytest.mark.parametrize(
    "lines", [(), ("* process.occupancy 0 none",)], ids=["NotFound", "nothing, raised as 0"]
)
def test_no_samples_of_processes_mean_that_nothing_ran(watch, stage, lines):
    gone = lines if lines else ("* process.occupancy 0 !6",)
    found = values(read(watch(*gone), stage).text)
    assert found[f'host_gpu_process_occupancy_ratio{{gpu="0",pid="{scenes.PID}",member="true"}}'] == 0


@pytest.mark.parametrize(
    ("here", "reason", "cure"),
    [
        (Setting(lacks_utility=True), "without the driver's `utility` capability", "compute,utility"),
        (WSL, "this is WSL", "/usr/lib/wsl/lib"),
        (Setting(), "no NVIDIA driver library", "--gpus all"),
    ],
)
def test_a_library_that_is_not_there_has_several_reasons(watch, here, reason, cure):
    with pytest.raises(Refused) as refused:
        watch("lib nvmlInitWithFlags 0 !12", here=here).read()
    assert reason in refused.value.reason
    assert cure in refused.value.cure


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        ({}, {}, Setting()),
        ({"self/status": "NSpid:\t77\t1\n"}, {}, INSIDE),
        ({"self/status": "NSpid:\t77\n"}, {}, Setting()),
        ({"sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n"}, {}, WSL),
        ({"driver/nvidia/params": "Foo: 0\nRmProfilingAdminOnly: 1\n"}, {}, ADMIN),
        ({"driver/nvidia/params": "RmProfilingAdminOnly: 0\n"}, {}, Setting()),
        ({}, {"NVIDIA_DRIVER_CAPABILITIES": "compute"}, Setting(lacks_utility=True)),
        ({}, {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}, Setting()),
        ({}, {"NVIDIA_DRIVER_CAPABILITIES": "all"}, Setting()),
    ],
)
def test_where_we_are_is_read_from_files_and_the_environment(tmp_path, files, environment, expected):
    write(tmp_path, files)
    assert setting(proc=str(tmp_path), dev=str(tmp_path / "dev"), environment=environment) == expected
