"""Which cards a family holds."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from fakeproc import FakeProc

from kvdoctor.target.family import Card
from kvdoctor.target.gpu import Device, Devices, cards_of, devices, minors
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc

A, B = Card(0, "GPU-aaaa", "NVIDIA H200", "0000:17:00.0"), Card(1, "GPU-bbbb", "NVIDIA H200", "0000:65:00.0")
NONE: frozenset[int] = frozenset()


def seen(a: frozenset[int] = NONE, b: frozenset[int] = NONE) -> Devices:
    return Devices((Device(A, 0, a), Device(B, 1, b)), is_readable=True)


@pytest.mark.parametrize(
    ("found", "opened", "environment", "expected"),
    [
        (seen(), {10: NONE}, {"CUDA_VISIBLE_DEVICES": "0"}, ()),
        (seen(b=frozenset((10,))), {10: frozenset((0, 1))}, {}, (B,)),
        (seen(b=frozenset((77,))), {10: frozenset((0,))}, {}, (A,)),
        (seen(a=frozenset((10,))), {10: NONE}, {}, ()),
        (seen(), {10: frozenset((0, 1))}, {"CUDA_VISIBLE_DEVICES": "1"}, (B,)),
        (seen(), {10: frozenset((0, 1))}, {"CUDA_VISIBLE_DEVICES": "GPU-bb, 0"}, (B, A)),
        (seen(), {10: frozenset((0, 1))}, {"CUDA_VISIBLE_DEVICES": "MIG-1"}, (Card(-1, "MIG-1"),)),
        (seen(), {10: frozenset((-1, 1)), 11: frozenset((0,))}, {}, (A, B)),
        (Devices(), {10: frozenset((3,))}, {}, (Card(3),)),
        (Devices(), {10: frozenset((-1,))}, {}, ()),
    ],
)
def test_cards(
    found: Devices, opened: dict[int, frozenset[int]], environment: dict[str, str], expected: tuple[Card, ...]
) -> None:
    assert cards_of(found, opened, (environment,)) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 0),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa"}, 0),
    ],
    ids=["CUDA puts the fastest first", "told to count as NVML", "by UUID"],
)
def test_among_cards_of_several_kinds_a_number_of_cudas_is_not_nvmls(
    environment: dict[str, str], expected: int
) -> None:
    slow = Card(0, "GPU-aaaa", "Tesla T4", "0000:17:00.0")
    mixed = Devices((Device(slow, 0, NONE), Device(B, 1, NONE)), is_readable=True)
    (found,) = cards_of(mixed, {10: frozenset((1,))}, (environment,))
    assert found.index == expected


def test_nvmls_word_counts_where_open_files_are_closed_to_us() -> None:
    found = seen(a=frozenset((10,)))
    assert cards_of(found, {10: NONE}, (), believed=frozenset((10,))) == (A,)


def test_open_devices(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"])
    for target in (
        "/dev/nvidia1",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia10",
        "socket:[1]",
        "/dev/nvidia1x",
    ):
        fake.opens(10, target)
    assert minors(Proc(fake.root), 10) == {1, 10, -1}
    assert minors(Proc(fake.root), 11) == frozenset()


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class Mismatch(Exception):
    pass


def library(
    monkeypatch: pytest.MonkeyPatch, *, start: int = 0, lost: frozenset[int] = NONE, pids: bool = True
) -> None:
    """Put a small NVML in the place of pynvml: two cards, each with one process."""
    module = ModuleType("pynvml")

    def begin() -> None:
        if start:
            raise NvmlError(start)

    def handle(index: int) -> int:
        if index in lost:
            raise NvmlError(15)
        return index

    def processes(index: int) -> list[SimpleNamespace]:
        if not pids:
            raise Mismatch
        return [SimpleNamespace(pid=100 + index)]

    calls = {
        "NVMLError": NvmlError,
        "NVMLLibraryMismatchError": Mismatch,
        "nvmlInit": begin,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": handle,
        "nvmlDeviceGetName": lambda index: b"NVIDIA L4",
        "nvmlDeviceGetUUID": lambda index: f"GPU-{index}",
        "nvmlDeviceGetMinorNumber": lambda index: index,
        "nvmlDeviceGetPciInfo": lambda index: SimpleNamespace(busId=f"00000000:0{index}:00.0".encode()),
        "nvmlDeviceGetComputeRunningProcesses": processes,
    }
    for name, value in calls.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "pynvml", module)


def test_nvml_is_asked_for_names_and_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    found = devices(Patience())
    assert found.is_readable
    assert [(d.card, d.pids) for d in found.devices] == [
        (Card(0, "GPU-0", "NVIDIA L4", "0000:00:00.0"), {100}),
        (Card(1, "GPU-1", "NVIDIA L4", "0000:01:00.0"), {101}),
    ]


def test_a_lost_card_does_not_hide_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, lost=frozenset((0,)))
    found = devices(Patience())
    assert [d.card.index for d in found.devices] == [1]
    assert "GPU 0" in found.gaps[0].reason


def test_an_old_library_still_gives_names(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, pids=False)
    assert [(d.card.name, d.pids) for d in devices(Patience()).devices] == [("NVIDIA L4", set())] * 2


@pytest.mark.parametrize(
    ("code", "reason"), [(12, "no libnvidia-ml"), (9, "not loaded"), (18, "differ"), (999, "does not start")]
)
def test_a_start_that_fails_is_a_gap(monkeypatch: pytest.MonkeyPatch, code: int, reason: str) -> None:
    library(monkeypatch, start=code)
    found = devices(Patience())
    assert not found.is_readable
    assert reason in found.gaps[0].reason
    assert found.gaps[0].cure


def test_without_the_package_there_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert devices(Patience()).gaps[0].cure == "pip install nvidia-ml-py"
