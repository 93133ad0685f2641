"""The CUDA side of the probes on a CPU that stands in for a card: every call is made, with a card's own refusals."""

from __future__ import annotations

import contextlib
import ctypes
import time
from types import SimpleNamespace

import pytest

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import cuda, hbm_cuda, pcie, pcie_cuda
from kvdoctor.probes.timing import Ceiling, Pace

torch = pytest.importorskip("torch")

MIB = 2**20
SIZE = 8 * MIB


def quiet(doing, share):
    """Say nothing."""


class Stream:
    """Everything is done at once, in order."""

    cuda_stream = 7

    def __init__(self, device=None):
        self.device = device

    def wait_stream(self, other):
        """Nothing is under way."""

    def wait_event(self, event):
        """Nothing is under way."""

    def synchronize(self):
        """Nothing is under way."""


class Event:
    """A stamp of the host's clock, in milliseconds as CUDA's."""

    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self, stream=None):
        self.at = time.perf_counter()

    def synchronize(self):
        """It has happened."""

    def elapsed_time(self, other):
        return max(1e-3, (other.at - self.at) * 1e3)


@pytest.fixture
def card(monkeypatch):
    """A card whose memory is the host's. Taking memory works by its number alone, as in torch."""
    taken = []

    def fraction(share, device):
        assert isinstance(device, int), "torch takes no device without its number here"
        taken.append(share)

    stand_ins = {
        "Stream": Stream,
        "Event": Event,
        "current_stream": lambda device=None: Stream(),
        "stream": lambda stream: contextlib.nullcontext(),
        "synchronize": lambda device=None: None,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "can_device_access_peer": lambda one, other: False,
        "get_device_name": lambda device=None: "a card",
        "mem_get_info": lambda device=None: (8 * 2**30, 16 * 2**30),
        "set_per_process_memory_fraction": fraction,
        "get_device_properties": lambda device=None: SimpleNamespace(
            L2_cache_size=MIB, memory_clock_rate=3201000, memory_bus_width=6144, pci_bus_id=23
        ),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *_: self)
    monkeypatch.setattr(cuda, "device_of", lambda name: torch.device("cpu"))
    return taken


@pytest.mark.parametrize(("name", "index"), [("auto", 0), ("cuda", 0), ("cuda:1", 1)])
def test_a_device_always_has_its_number(name, index, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert cuda.device_of(name) == torch.device("cuda", index)


def test_what_may_be_taken_is_capped_also_where_no_number_is_given(card):
    cuda.require_memory(torch.device("cuda"), 2**30)
    assert card == [pytest.approx((2**30 + cuda.MARGIN) / (16 * 2**30))]


def test_too_little_memory_of_a_card_is_refused(card):
    with pytest.raises(Unavailable, match="the probe needs 8,704 MiB of the GPU, and 8,192 are free"):
        cuda.require_memory(torch.device("cuda", 0), 8 * 2**30)


def test_the_ceiling_is_the_clocks_rate(card):
    assert cuda.memory_ceiling(None).bytes_per_s == pytest.approx(4.917e12, rel=1e-3)


@pytest.mark.parametrize("shared", [False, True])
def test_hbm_is_read_copied_and_written(card, shared, monkeypatch):
    monkeypatch.setattr(hbm_cuda, "COMPARED", 2**20)
    monkeypatch.setattr(hbm_cuda, "Pace", lambda shared: Pace(shared, sleep=lambda seconds: None))
    found = hbm_cuda.run_cuda("auto", SIZE, shared, quiet)
    ops = [row["op"] for row in found["rows"]]
    assert ops == ["read", "copy", "write"][: len(ops)]
    assert found["achieved_bytes_per_s"] == found["rows"][0]["bytes_per_s"] > 0
    assert found["conditions"]["shared_with_others"] is shared


def test_a_copy_that_arrives_changed_anywhere_is_seen(monkeypatch):
    monkeypatch.setattr(hbm_cuda, "COMPARED", 4)
    source = torch.arange(10, dtype=torch.int32)
    target = source.clone()
    assert hbm_cuda._same(source, target)
    target[9] += 1
    assert not hbm_cuda._same(source, target)


def test_the_link_is_measured_in_every_way_and_the_bytes_arrive(card, monkeypatch):
    monkeypatch.setattr(pcie, "MOST_SCATTERED", SIZE)
    link = pcie_cuda.Cuda("auto", SIZE, SIZE)
    link.ceiling = Ceiling(None, "a stand-in has none")
    found = pcie.measured(link, SIZE, pcie.Options(), quiet)
    ops = {row["op"] for row in found["rows"]}
    assert {"pinned", "pageable", "both ways", "blocks one by one", "blocks gathered"} <= ops
    assert torch.equal(link._pinned[0], link._device[0])


def test_gathered_blocks_land_where_they_belong(card):
    link = pcie_cuda.Cuda("auto", MIB, MIB)
    block = 64 * 1024
    order = torch.tensor([5, 0, 9])
    link._gathered("h2d", block, order)
    for place, number in enumerate(order.tolist()):
        there = link._pool[number * block : (number + 1) * block]
        assert torch.equal(there, link._host_pool[place * block : (place + 1) * block])
    link._gathered("d2h", block, order)
    assert torch.equal(link._host_pool[:block], link._pool[5 * block : 6 * block])


def test_bytes_that_do_not_come_back_are_an_error(card, monkeypatch):
    monkeypatch.setattr(torch, "equal", lambda one, other: False)
    with pytest.raises(KvdoctorError, match="arrived changed"):
        pcie_cuda.Cuda("auto", MIB, MIB)


class Batch:
    """Stands in for the driver's batched copy: copies, does nothing, or refuses."""

    has_index = False

    def __init__(self, behaves):
        self.behaves = behaves

    def submit(self, into, source, block, stream):
        if self.behaves == "refuses":
            raise KvdoctorError("the driver refused a batched copy: CUDA error 1")
        for target, origin in zip(into, source, strict=True):
            if self.behaves == "copies":
                ctypes.memmove(target, origin, block)


@pytest.mark.parametrize(
    ("behaves", "told", "methods"),
    [
        ("copies", "proven", 3),
        ("does nothing", "the driver's batched copy brought other bytes", 2),
        ("refuses", "the driver refused a batched copy: CUDA error 1", 2),
    ],
)
def test_a_batched_copy_is_used_only_where_it_proves_to_work(card, monkeypatch, behaves, told, methods):
    monkeypatch.setattr(pcie_cuda.BatchCopy, "load", lambda: Batch(behaves))
    link = pcie_cuda.Cuda("auto", MIB, MIB)
    assert link.about()["batched"] == told
    assert len(link.methods()) == methods
