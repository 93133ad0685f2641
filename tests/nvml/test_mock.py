"""The mock itself: the binding loads it, and it keeps NVML's protocols."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pynvml
import pytest
from nvml import scenes
from nvml.mock import DRIVER_470, SCENARIO, installed


def code(call, *given):
    """The number of the error that a call raises, 0 for none."""
    try:
        call(*given)
    except pynvml.NVMLError as error:
        return error.value
    return 0


@pytest.fixture
def card(stage):
    def start(*lines, absent=()):
        nvml = stage.play(*scenes.healthy(), *lines, absent=absent)
        nvml.nvmlInit()
        return nvml.nvmlDeviceGetHandleByIndex(0)

    return start


def test_a_process_finds_it_by_the_name_of_the_real_one(library, tmp_path):
    (tmp_path / "scene").write_text("\n".join(scenes.healthy(3)))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(installed(library, tmp_path / "lib"))}
    words = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", words],
        env={**environment, SCENARIO: str(tmp_path / "scene")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "3\n"


def test_before_init_every_call_is_refused(stage):
    nvml = stage.play(*scenes.healthy())
    nvml._LoadNvmlLibrary()
    assert code(nvml.nvmlDeviceGetCount) == 1


def test_text_and_numbers_arrive_as_the_binding_gives_them(card):
    handle = card()
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA H200"
    assert pynvml.nvmlDeviceGetMemoryInfo(handle).used == 100 * scenes.GIB
    assert pynvml.nvmlDeviceGetPciInfo(handle).busId == "00000000:17:00.0"
    assert pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) == 3201


def test_what_the_scenario_does_not_name_is_not_supported_and_its_errors_are_raised(card):
    handle = card("0 nvmlDeviceGetPowerUsage 0 !4", f"0 clock.1 0 {scenes.ABSENT}")
    assert code(pynvml.nvmlDeviceGetTemperature, handle, 7) == 3
    assert code(pynvml.nvmlDeviceGetPowerUsage, handle) == 4
    assert code(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM) == 3


def test_an_absent_symbol_is_an_old_driver(card):
    handle = card(absent=DRIVER_470)
    assert code(pynvml.nvmlGpmQueryDeviceSupport, handle) == 13
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == 0


def test_values_change_and_a_card_is_lost_when_the_clock_says_so(stage, card):
    handle = card("0 pstate 5 8", "0 card 10 !15")
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 0
    stage.at(5)
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 8
    stage.at(10)
    assert code(pynvml.nvmlDeviceGetPerformanceState, handle) == 15
    assert code(pynvml.nvmlDeviceGetHandleByIndex, 0) == 15


@pytest.mark.parametrize(("lines", "expected"), [((), 8e9), (("0 bits.198 0 32",), 8e9 % 2**32)])
def test_a_counter_is_the_integral_of_its_rate_and_may_wrap(stage, card, lines, expected):
    handle = card("0 rate.198 0 1e9", *lines)
    stage.at(8)
    (found,) = pynvml.nvmlDeviceGetFieldValues(handle, [198])
    assert (found.nvmlReturn, found.valueType, found.value.ullVal) == (0, 3, int(expected))


def test_a_field_fails_alone(card):
    found = pynvml.nvmlDeviceGetFieldValues(card("0 field.75 0 !4"), [74, 75])
    assert [each.nvmlReturn for each in found] == [0, 4]


def test_the_list_of_processes_keeps_the_two_steps(card):
    handle = card("0 processes 0 10:1024,11:none")
    found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [(each.pid, each.usedGpuMemory) for each in found] == [(10, 1024), (11, None)]


def metric(number, first, second):
    request = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=1, sample1=first, sample2=second)
    request.metrics[0].metricId = number
    return pynvml.nvmlGpmMetricsGet(request).metrics[0]


@pytest.fixture
def samples(stage, card):
    def take(seconds, *lines):
        handle, pair = card(*lines), []
        for moment in (0.0, seconds):
            stage.at(moment)
            pair.append(pynvml.nvmlGpmSampleGet(handle, pynvml.nvmlGpmSampleAlloc()))
        return pair

    return take


def test_a_gpm_metric_is_the_mean_between_two_samples(samples):
    found = metric(10, *samples(2.0, "0 gpm.10 0 0", "0 gpm.10 1 60"))
    assert (found.nvmlReturn, found.value) == (0, 30.0)


@pytest.mark.parametrize(("seconds", "line"), [(0.05, "0 gpm.10 0 60"), (1.0, "0 gpm.10 0 !3")])
def test_gpm_leaves_garbage_where_it_has_no_value(samples, seconds, line):
    assert metric(10, *samples(seconds, line)).value > 1e300


def test_gpm_gives_what_is_no_number(samples):
    assert math.isnan(metric(10, *samples(1.0, "0 gpm.10 0 nan")).value)


def test_a_wrong_version_of_a_structure_is_refused(samples):
    first, second = samples(1.0)
    request = pynvml.c_nvmlGpmMetricsGet_t(version=2, numMetrics=0, sample1=first, sample2=second)
    assert code(pynvml.nvmlGpmMetricsGet, request) == 25


def test_instances_of_mig_have_holes_between_them(card):
    handle = card(*scenes.MIG)
    assert code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, 0) == 6
    instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 1)
    assert pynvml.nvmlDeviceGetMemoryInfo(instance).total == 71 * scenes.GIB
    assert code(pynvml.nvmlDeviceGetUtilizationRates, instance) == 3
