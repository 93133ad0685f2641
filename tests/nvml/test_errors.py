"""Every documented error of NVML, raised by the mock: what the user reads, and that nothing else is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hosts import values
from nvml import scenes
from nvml.mock import DRIVER_470
from nvml.reading import gaps, read

from kvdoctor.errors import Refused, Unavailable
from kvdoctor.target.family import Card

POWER = "nvmlDeviceGetPowerUsage"


def test_a_healthy_card_has_no_gap(watch, stage):
    assert gaps(read(watch(), stage)) == []


@pytest.mark.parametrize(
    ("code", "words", "cure"),
    [
        (1, "NVML was closed meanwhile", "run kvdoctor again"),
        (2, "this driver does not know the question", "update the NVIDIA driver"),
        (3, "this card does not tell", ""),
        (4, "it may not be read by this user", "as root"),
        (9, "the driver was unloaded", "nvidia-smi"),
        (13, "this driver is older than the question", "update the NVIDIA driver"),
        (14, "InfoROM is damaged", "nvidia-smi"),
        (17, "a cgroup keeps it closed", "docker --gpus"),
        (18, "library and its kernel module differ", "restart the container"),
        (20, "no memory for it", "nvidia-smi"),
        (25, "another version of the question", "update the NVIDIA driver"),
        (26, "has given the question up", "update kvdoctor"),
        (27, "not ready", "nvidia-smi"),
        (28, "the card is gone", "nvidia-smi"),
        (29, "in a state in which it does not tell", "nvidia-smi"),
        (77, "NVML error 77", "nvidia-smi"),
    ],
)
def test_an_error_of_one_call_is_a_gap_and_takes_nothing_else(watch, stage, code, words, cure):
    page = read(watch(f"0 {POWER} 0 !{code}"), stage)
    ((source, reason, cured),) = gaps(page)
    assert (source, reason) == ("GPU 0", f"power: {reason.partition(': ')[2]}")
    assert words in reason
    assert cure in cured
    assert 'host_gpu_memory_bytes{gpu="0"}' in values(page.text)
    assert not any(key.startswith("host_gpu_power_watts") for key in values(page.text))


@pytest.mark.parametrize("code", [6, 7, 21])
def test_nothing_to_tell_just_now_is_neither_a_gap_nor_a_zero(watch, stage, code):
    page = read(watch(f"0 {POWER} 0 !{code}", f"0 {POWER} 2 0"), stage)
    assert gaps(page) == []
    assert not any(key.startswith("host_gpu_power_watts") for key in values(page.text))


@pytest.mark.parametrize("code", [10, 999])
def test_an_error_that_may_pass_is_tried_again_and_told_when_it_stays(watch, stage, code):
    place = watch(f"0 {POWER} 0 !{code}", f"0 {POWER} 2 0")
    assert gaps(place.read()) == []
    stage.at(1)
    ((_, reason, cure),) = gaps(place.read())
    assert "failed twice in a row" in reason
    assert "Xid 79" in cure
    stage.at(2)
    page = place.read()
    assert gaps(page) == []
    assert values(page.text)['host_gpu_power_watts{gpu="0"}'] == 500


@pytest.mark.parametrize(("code", "words"), [(15, "fell off the bus"), (16, "needs a reset")])
def test_a_card_lost_while_we_watch_is_left_alone_and_the_others_are_read_on(watch, stage, code, words):
    place = watch(f"1 card 2 !{code}", "1 xid 2 79", cards=(), number=3)
    place.read()
    stage.at(2)
    place.read()
    stage.at(3)
    page = place.read()
    found = values(page.text)
    assert [(source, words in reason, "Xid 79" in cure) for source, reason, cure in gaps(page)] == [
        ("GPU 1", True, True)
    ]
    assert {key for key in found if 'gpu="1"' in key and "xid" not in key} == {
        f'host_gpu_missing{{gpu="1",reason="the card {words}"}}'
    }
    assert found['host_gpu_xids_total{gpu="1",xid="79"}'] == 1
    assert 'host_gpu_memory_bytes{gpu="2"}' in found


@pytest.mark.parametrize(
    ("code", "cure", "is_fault"), [(4, "NVIDIA_MIG_MONITOR", False), (15, "Xid 79", True)]
)
def test_a_card_that_never_gives_a_handle_leaves_the_others(watch, stage, code, cure, is_fault):
    page = read(watch(f"1 card 0 !{code}", cards=(Card(0), Card(1)), number=2), stage)
    found = values(page.text)
    assert [(source, cure in told) for source, _, told in gaps(page)] == [("GPU 1", True)]
    assert any(key.startswith('host_gpu_missing{gpu="1"') for key in found) is is_fault
    assert 'host_gpu_memory_bytes{gpu="0"}' in found


def test_a_card_that_hangs_holds_up_no_other(watch, stage, monkeypatch):
    monkeypatch.setattr("kvdoctor.collectors.nvml.LIMIT", 0.2)
    place = watch("0 nvmlDeviceGetClockInfo 0 hang:1", cards=(Card(0), Card(1)), number=2)
    for _ in range(2):
        page = place.read()
        assert 'host_gpu_memory_bytes{gpu="1"}' in values(page.text)
        assert [(source, "did not answer" in reason) for source, reason, _ in gaps(page)] == [("GPU 0", True)]


@pytest.mark.parametrize(
    ("code", "reason", "cure"),
    [
        (4, "may not be used by this user", "root"),
        (9, "not loaded", "load it"),
        (12, "no NVIDIA driver library", "--gpus all"),
        (15, "fell off the bus", "Xid 79"),
        (17, "operating system keeps NVML closed", "root"),
        (18, "library and its kernel module differ", "restart the container"),
        (20, "no memory", "nvidia-smi"),
        (999, "fails to start NVML", "kernel's log"),
    ],
)
def test_without_a_start_the_reason_and_the_cure_are_told(watch, code, reason, cure):
    with pytest.raises(Refused) as refused:
        watch(f"lib nvmlInitWithFlags 0 !{code}").read()
    assert reason in refused.value.reason
    assert cure in refused.value.cure


WITHOUT = """
import ctypes
from kvdoctor.collectors.nvml import Nvml
from kvdoctor.errors import Refused
try:
    ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    try:
        Nvml((), ()).read()
    except Refused as refused:
        print(refused.reason)
"""


def test_without_any_library_the_binding_says_so():
    """In a process of its own: in this one a mock already has the library's name."""
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=root, capture_output=True, text=True, check=True
    )
    if not done.stdout:
        pytest.skip("this machine has a driver of its own")
    assert "no NVIDIA driver library here" in done.stdout


def test_a_library_without_the_first_symbol_is_an_old_driver(watch):
    with pytest.raises(Refused) as refused:
        watch(absent=("nvmlInitWithFlags",)).read()
    assert "older than NVML's first call" in refused.value.reason


def test_no_card_of_the_engine_is_visible(watch):
    with pytest.raises(Unavailable):
        watch(cards=(Card(5),)).read()


def test_a_driver_of_the_470_branch_is_told_what_it_lacks(watch, stage):
    page = read(watch(absent=DRIVER_470), stage)
    told = " ".join(reason for _, reason, _ in gaps(page))
    assert "memory bus width" in told
    assert "older than the question" in told
    assert "HBM traffic and busy SMs are unknown" in told
    found = values(page.text)
    assert 'host_gpu_throttle{gpu="0",reason="idle"}' in found
    assert f'host_gpu_process{{gpu="0",pid="{scenes.PID}",member="true"}}' in found


def test_a_field_that_needs_root_is_a_gap_of_its_own(watch, stage):
    page = read(watch("0 field.179 0 !4"), stage)
    ((_, reason, cure),) = gaps(page)
    assert "field 179" in reason
    assert "root" in cure
    assert 'host_gpu_throttled_seconds_total{gpu="0",reason="power_cap"}' in values(page.text)


# -- counters that wrap, and blocking calls ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("* rate.198 0 5e10", "* bits.198 0 32"), None),
        (("* rate.198 0 5e10",), 5e10),
        (("* rate.198 0 1e6",), None),
        (("* rate.198 0 5e10", "* type.198 0 1"), None),
    ],
    ids=["32 bits", "64 bits", "64 bits, not proven yet", "typed as 32 bits"],
)
def test_pcie_bytes_count_only_where_they_cannot_have_wrapped(watch, stage, lines, told):
    found = values(read(watch(*lines), stage, 2).text)
    assert found.get('host_gpu_pcie_bytes_total{gpu="0",direction="receive"}') == told


def test_nvlink_bytes_are_counted_in_kib(watch, stage):
    found = values(read(watch("* rate.138 0 1000"), stage, 3).text)
    assert found['host_gpu_nvlink_bytes_total{gpu="0",direction="transmit"}'] == 2000 * 1024


def test_pcie_windows_are_opened_only_where_no_counter_tells(watch, stage):
    counted = watch()
    read(counted, stage)
    assert not any(key.startswith("host_gpu_link_bytes") for key in values(counted.read().text))
    stage.at(0)
    old = watch(*scenes.BEFORE_HOPPER)
    old.read()
    old.settle()
    stage.at(1)
    found = values(old.read().text)
    assert found['host_gpu_link_bytes_per_second{gpu="0",direction="receive"}'] == 1e9


def test_windows_that_block_delay_no_other_reading(watch, stage):
    cards = tuple(Card(index) for index in range(8))
    scene = (*scenes.BEFORE_HOPPER, "* nvmlDeviceGetPcieThroughput 0 hang:0.3")
    place = watch(*scene, cards=cards, number=8)
    found = values(place.read().text)
    assert place.waits
    assert [index for index in range(8) if f'host_gpu_memory_bytes{{gpu="{index}"}}' in found] == list(
        range(8)
    )
    place.settle()
    assert not place.waits
    stage.at(1)
    later = values(place.read().text)
    assert len([key for key in later if key.startswith("host_gpu_link_bytes_per_second")]) == 16
