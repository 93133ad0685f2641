"""The card: by name, from the driver, or as given."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import machine
from kvdoctor.roofline.machine import card_of, local_gpu_name
from kvdoctor.roofline.presets import preset


class NoDriver(Exception):
    """What NVML raises."""


def driver(name: object = "NVIDIA H200") -> SimpleNamespace:
    """A driver with one card; an exception as its name is raised."""

    def named(handle: object) -> object:
        if isinstance(name, Exception):
            raise name
        return name

    return SimpleNamespace(
        NVMLError=NoDriver,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=named,
    )


@pytest.fixture
def _node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(machine, "_DRIVER_NODES", (str(tmp_path / "nvidiactl"),))


@pytest.mark.usefixtures("_node")
@pytest.mark.parametrize("name", ["NVIDIA H200", b"NVIDIA H200"])
def test_auto_asks_the_driver_for_its_card(monkeypatch: pytest.MonkeyPatch, name: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(name))
    for asked in ("auto", None):
        card = card_of(asked)
        assert (card.name, card.bandwidth, card.basis) == ("NVIDIA H200", 4.8e12, "data sheet")


@pytest.mark.usefixtures("_node")
def test_a_driver_that_fails_is_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(NoDriver("driver not loaded")))
    assert local_gpu_name() is None
    assert card_of(None).bandwidth is None
    with pytest.raises(KvdoctorError):
        card_of("auto")


def test_without_a_driver_pynvml_is_not_even_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_DRIVER_NODES", ("/nowhere/nvidiactl",))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert local_gpu_name() is None


def test_what_is_given_replaces_the_data_sheet() -> None:
    card = card_of("H100", bandwidth="2.9TB/s", memory="70", peak=800.0, link="100")
    found = card.machine(preset("Llama-3.1-8B"))
    assert found is not None
    assert (found.bandwidth, found.peak, found.link, found.basis) == (2.9e12, 800e12, 100e9, "given")
    assert card.memory == 70 * 2**30


def test_a_bare_bandwidth_is_a_machine_without_a_card() -> None:
    card = card_of(None, bandwidth="1000")
    found = card.machine(preset("Llama-3.1-8B"))
    assert found is not None
    assert (found.bandwidth, found.peak, card.memory) == (1e12, None, None)


def test_the_peak_is_that_of_the_weights_arithmetic() -> None:
    card = card_of("H100")
    peaks = []
    for model in ("Llama-3.1-8B", "Qwen3-32B-FP8"):
        found = card.machine(preset(model))
        assert found is not None
        peaks.append(found.peak)
    assert peaks == [989e12, 1979e12]
