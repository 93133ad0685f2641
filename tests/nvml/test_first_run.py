"""What the first run on a card asks of NVML, over the mock: each answer or its code, and GPM between two samples."""

from __future__ import annotations

import pytest
from nvml import scenes

from benchmarks import gpu_judges, gpu_nvml


@pytest.fixture
def card(stage, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stage.play(*scenes.healthy(2), "0 power 0 !4")
    return gpu_nvml.card()


def test_everything_is_asked_and_a_refusal_is_its_code(card):
    seen = gpu_nvml.everything(card)
    assert seen["Name"] == {"value": "NVIDIA H200"}
    assert seen["MemoryBusWidth"] == {"value": 6144}
    assert seen["PowerUsage"]["code"] == 4
    assert seen["NumGpuCores"]["code"] == 13
    assert seen["field 82"]["value"] == 70
    found = gpu_judges.dump(seen)
    assert found["agrees"] is True
    assert found["seen"]["codes"]["PowerUsage"] == 4


def test_the_card_is_the_one_that_cuda_has_first(stage, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-00000001")
    nvml = stage.play(*scenes.healthy(2))
    assert nvml.nvmlDeviceGetUUID(gpu_nvml.card()) == "GPU-00000001"


def test_gpm_is_read_around_the_work(card, stage):
    found = gpu_nvml.gpm(card, lambda: stage.at(1.0))
    assert found["10"] == {"code": 0, "value": pytest.approx(80.0)}
    assert found["2"]["value"] == pytest.approx(96.0)
