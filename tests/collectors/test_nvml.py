"""NVML: base units, one failed call or lost card alone, and what is never asked twice."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakenvml import FakeNvml
from hosts import PID, values, write

from kvdoctor.collectors import nvml_calls
from kvdoctor.collectors.nvml import NO_PACKAGE, Nvml
from kvdoctor.errors import Refused, Unavailable
from kvdoctor.target.family import Card


def place(nvml: FakeNvml, *cards: Card, sys: str = "/nonexistent") -> Nvml:
    return Nvml(cards, (PID,), load=lambda: nvml, sys=sys)


def test_a_card_is_read_in_base_units():
    found = values(place(FakeNvml()).read().text)
    assert found['host_gpu_time_occupancy_ratio{gpu="0"}'] == 0.97
    assert found['host_gpu_memory_bytes{gpu="1"}'] == 141 * 2**30
    assert found['host_gpu_clock_hertz{gpu="0",clock="sm"}'] == 1.98e9
    assert found['host_gpu_power_watts{gpu="0"}'] == 500
    assert found['host_gpu_throttled_seconds_total{gpu="0",reason="power_cap"}'] == 2
    assert 'host_gpu_throttled_seconds_total{gpu="0",reason="thermal"}' not in found
    assert not any(key.startswith("host_gap") for key in found)


def test_without_counters_the_pcie_windows_of_the_reading_before_are_told():
    nvml = FakeNvml(1)
    nvml.answers["nvmlGpmQueryDeviceSupport"].isSupportedDevice = 0
    each = place(nvml)
    each.read()
    each.settle()
    assert values(each.read().text)['host_gpu_link_bytes_per_second{gpu="0",direction="receive"}'] == 1e9


def test_members_are_told_from_others_and_unknown_memory_is_no_zero():
    found = values(place(FakeNvml()).read().text)
    assert found[f'host_gpu_process_bytes{{gpu="0",pid="{PID}",member="true"}}'] == 90 * 2**30
    assert 'host_gpu_process_bytes{gpu="0",pid="77",member="false"}' not in found
    assert found['host_gpu_process_occupancy_ratio{gpu="0",pid="77",member="false"}'] == 0.3


def test_only_the_cards_of_the_family_are_read():
    by_index = values(place(FakeNvml(3), Card(1)).read().text)
    by_uuid = values(place(FakeNvml(3), Card(-1, "GPU-1")).read().text)
    assert by_index == by_uuid
    assert 'host_gpu_memory_bytes{gpu="1"}' in by_index
    assert 'host_gpu_memory_bytes{gpu="0"}' not in by_index


@pytest.mark.parametrize("what", [name for name, _ in nvml_calls.READINGS])
def test_any_reading_may_be_unsupported_alone(what):
    nvml, whole = FakeNvml(1), set(values(place(FakeNvml(1)).read().text))
    ask = dict(nvml_calls.READINGS)[what]
    list(ask(nvml, 0))
    nvml.codes = dict.fromkeys(nvml.calls, 3)
    nvml.calls.clear()
    found = values(place(nvml).read().text)
    gaps = [key for key in found if key.startswith("host_gap")]
    assert [what in gap for gap in gaps] == [True]
    assert 0 < len(whole - set(found)) <= 10


def test_what_a_card_has_not_is_asked_once_only():
    nvml = FakeNvml(1)
    nvml.codes["nvmlDeviceGetTotalEccErrors"] = 3
    each = place(nvml)
    each.read()
    nvml.calls.clear()
    assert any("ECC errors" in key for key in values(each.read().text))
    assert "nvmlDeviceGetTotalEccErrors" not in nvml.calls


def test_a_passing_error_is_asked_again_and_is_no_gap():
    nvml = FakeNvml(1)
    nvml.codes["nvmlDeviceGetUtilizationRates"] = 999
    each = place(nvml)
    assert not any(key.startswith("host_gap") for key in values(each.read().text))
    nvml.codes.clear()
    assert 'host_gpu_time_occupancy_ratio{gpu="0"}' in values(each.read().text)


def test_a_card_that_fell_off_the_bus_leaves_the_other():
    nvml = FakeNvml(2)
    nvml.codes["nvmlDeviceGetHandleByIndex", 0] = 15
    found = values(place(nvml).read().text)
    assert 'host_gpu_memory_bytes{gpu="1"}' in found
    assert any("fell off the bus" in key for key in found)


@pytest.mark.parametrize(("code", "cure"), [(9, "load it"), (12, "--gpus all"), (18, "restart"), (4, "root")])
def test_without_a_driver_the_cure_is_named(code, cure):
    nvml = FakeNvml()
    nvml.codes["nvmlInit"] = code
    with pytest.raises(Refused) as refused:
        place(nvml).read()
    assert cure in refused.value.cure


def test_without_the_package_the_cure_is_to_install_it():
    def load() -> None:
        raise NO_PACKAGE

    with pytest.raises(Refused) as refused:
        Nvml((), (), load=load).read()
    assert "nvidia-ml-py" in refused.value.cure


def test_no_visible_card_of_the_family_is_unavailable():
    with pytest.raises(Unavailable):
        place(FakeNvml(1), Card(5)).read()


def test_an_old_bindings_name_for_throttle_reasons_is_used():
    nvml = FakeNvml(1)
    del nvml.answers["nvmlDeviceGetCurrentClocksEventReasons"]
    nvml.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0x40
    found = values(place(nvml).read().text)
    assert found['host_gpu_throttle{gpu="0",reason="hardware_thermal"}'] == 1
    assert found['host_gpu_throttle{gpu="0",reason="power_cap"}'] == 0


def test_xids_that_come_while_we_watch_are_counted():
    nvml = FakeNvml(1)
    each = place(nvml)
    each.read()
    nvml.events = [SimpleNamespace(device=0, eventData=79)] * 2
    assert values(each.read().text)['host_gpu_xids_total{gpu="0",xid="79"}'] == 2


def test_the_cards_numa_node_comes_from_sys(tmp_path):
    write(tmp_path, {"bus/pci/devices/0000:17:00.0/numa_node": "1\n"})
    found = values(place(FakeNvml(1), sys=str(tmp_path)).read().text)
    assert found['host_gpu_node{gpu="0",node="1"}'] == 1


def test_a_card_that_nobody_named_counts_only_with_a_member_on_it():
    nvml = FakeNvml(2)
    other = Nvml((), (1,), load=lambda: nvml, sys="/nonexistent")
    found = values(other.read().text)
    assert [key.startswith("host_gap") for key in found if "xids" not in key] == [True]
