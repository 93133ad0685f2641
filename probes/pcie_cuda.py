"""The copies of the PCIe probe, by torch and the CUDA driver. Not run on a card yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import cuda, disk
from kvdoctor.probes.batchcopy import BatchCopy
from kvdoctor.probes.timing import Ceiling

WITHIN = 8
"""Small copies between two events, so that a launch does not count alone."""
SMALL = 2**22
PEER_BYTES = 2**28


class Cuda:
    """One card with its buffers: pinned and pageable in the host, as much on the device."""

    def __init__(self, name: str, size: int, pool: int) -> None:
        import torch

        self._torch = torch
        self.device = cuda.device_of(name)
        cuda.require_memory(self.device, 2 * size + 2 * pool)
        self.name = str(torch.cuda.get_device_name(self.device))
        self._sysfs = Path("/sys/bus/pci/devices", cuda.pci_address(self.device))
        self.ceiling = _ceiling(self._sysfs)
        make = torch.randint
        self._pinned = [make(0, 256, (size,), dtype=torch.uint8).pin_memory() for _ in range(2)]
        self._pageable = make(0, 256, (size,), dtype=torch.uint8)
        self._device = [make(0, 256, (size,), dtype=torch.uint8, device=self.device) for _ in range(2)]
        self._host_pool = make(0, 256, (pool,), dtype=torch.uint8).pin_memory()
        self._pool = make(0, 256, (pool,), dtype=torch.uint8, device=self.device)
        self._staging = torch.empty_like(self._pool)
        self._streams = [torch.cuda.Stream(self.device) for _ in range(2)]
        torch.cuda.synchronize(self.device)
        self._verify(size)
        self._batch, self._no_batch = BatchCopy.load(), "the driver has no batched copy"
        if self._batch is not None:
            self._prove(min(SMALL, pool) // 2)

    def copy(self, direction: str, size: int, *, pinned: bool) -> float:
        """Copy the first bytes once; several times between the events where they are few."""
        host, device = (self._pinned[0] if pinned else self._pageable)[:size], self._device[0][:size]
        into, source = (device, host) if direction == "h2d" else (host, device)
        times = WITHIN if size <= SMALL else 1
        return cuda.event_seconds(
            lambda: into.copy_(source, non_blocking=pinned), self._streams[0], times=times
        )

    def both(self, size: int) -> float:
        """Copy both ways from one common event on; return the shorter stream's seconds."""
        torch = self._torch
        gate = torch.cuda.Event(enable_timing=True)
        ends = [torch.cuda.Event(enable_timing=True) for _ in self._streams]
        gate.record(self._streams[0])
        pairs = ((self._device[0], self._pinned[0]), (self._pinned[1], self._device[1]))
        for stream, end, (into, source) in zip(self._streams, ends, pairs, strict=True):
            stream.wait_event(gate)
            with torch.cuda.stream(stream):
                into[:size].copy_(source[:size], non_blocking=True)
                end.record(stream)
        torch.cuda.synchronize(self.device)
        return float(min(gate.elapsed_time(end) for end in ends)) / 1e3

    def methods(self) -> tuple[str, ...]:
        """One by one, gathered, and batched where the driver has the call."""
        return ("one by one", "gathered") + (("batched",) if self._batch is not None else ())

    def scattered(self, direction: str, block: int, pieces: int, method: str) -> float:
        """Copy blocks in an order of chance and wait; host time, because submission is part of it."""
        order = self._torch.randperm(self._pool.numel() // block)[:pieces]
        work: dict[str, Callable[[], None]] = {
            "one by one": lambda: self._loop(direction, block, order.tolist()),
            "gathered": lambda: self._gathered(direction, block, order),
            "batched": lambda: self._batched(direction, block, order.tolist()),
        }
        self._torch.cuda.synchronize(self.device)
        begin = time.perf_counter_ns()
        with self._torch.cuda.stream(self._streams[0]):
            work[method]()
        self._streams[0].synchronize()
        return (time.perf_counter_ns() - begin) / 1e9

    def _loop(self, direction: str, block: int, order: list[int]) -> None:
        into, source = (self._pool, self._host_pool) if direction == "h2d" else (self._host_pool, self._pool)
        for number in order:
            at = number * block
            into[at : at + block].copy_(source[at : at + block], non_blocking=True)

    def _gathered(self, direction: str, block: int, order: Any) -> None:
        """One copy of everything, scattered or gathered by the device."""
        total = len(order) * block
        rows, staged = (
            self._pool[: self._pool.numel() // block * block].view(-1, block),
            self._staging[:total],
        )
        index = order.to(self.device)
        if direction == "h2d":
            staged.copy_(self._host_pool[:total], non_blocking=True)
            rows.index_copy_(0, index, staged.view(-1, block))
        else:
            self._torch.index_select(rows, 0, index, out=staged.view(-1, block))
            self._host_pool[:total].copy_(staged, non_blocking=True)

    def _batched(self, direction: str, block: int, order: list[int]) -> None:
        if self._batch is None:
            raise KvdoctorError("the driver has no batched copy", "a newer driver has it: CUDA 12.8")
        host, device = self._host_pool.data_ptr(), self._pool.data_ptr()
        into, source = (device, host) if direction == "h2d" else (host, device)
        starts = [number * block for number in order]
        self._batch.submit(
            [into + at for at in starts], [source + at for at in starts], block, self._streams[0].cuda_stream
        )

    def peers(self) -> Iterator[tuple[str, float, int]]:
        """Copy to every other card that this one reaches directly."""
        torch = self._torch
        mine = self._device[0][:PEER_BYTES]
        own = mine.device.index
        for other in range(torch.cuda.device_count()):
            if other == own or not torch.cuda.can_device_access_peer(own, other):
                continue
            there = torch.empty_like(mine, device=f"cuda:{other}")
            seconds = [cuda.event_seconds(lambda: there.copy_(mine), self._streams[0]) for _ in range(4)]  # noqa: B023
            yield f"cuda:{own} to cuda:{other}", sorted(seconds[1:])[1], mine.numel()

    def about(self) -> dict[str, Any]:
        """Read the link while copies run: an idle card trains its link down."""
        seen: list[tuple[float, int] | None] = []
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(0.01):
                seen.append(disk.link(self._sysfs))

        thread = threading.Thread(target=look)
        thread.start()
        for _ in range(8):
            self.copy("h2d", self._pinned[0].numel(), pinned=True)
        stop.set()
        thread.join()
        rates = [each for each in seen if each is not None]
        best = max(rates, default=None)
        return {
            "link_bytes_per_s_during_copy": best[0] if best else None,
            "link_lanes_during_copy": best[1] if best else None,
            "verified": "a copy there and back",
            "batched": "proven" if self._batch is not None else self._no_batch,
            "torch": self._torch.__version__,
        }

    def _prove(self, block: int) -> None:
        """Copy two blocks by the batched call and look whether they came; leave it out where it does not do that."""
        torch = self._torch
        try:
            self._batched("h2d", block, [1, 0])
            torch.cuda.synchronize(self.device)
            came = torch.equal(self._pool[: 2 * block].cpu(), self._host_pool[: 2 * block])
            why = "" if came else "the driver's batched copy brought other bytes"
        except KvdoctorError as error:
            why = error.message
        if why:
            self._batch, self._no_batch = None, why

    def _verify(self, size: int) -> None:
        """Copy there and back, and compare."""
        self._device[0].copy_(self._pinned[0])
        self._pinned[1].copy_(self._device[0])
        if not self._torch.equal(self._pinned[0][:size], self._pinned[1][:size]):
            raise KvdoctorError(
                "a copy to the GPU and back arrived changed", "look at the PCIe replay counter"
            )


def _ceiling(folder: Path) -> Ceiling:
    """Return what the widest and fastest link that slot and card allow carries in one direction."""
    found = disk.link(folder, "max")
    if found is None:
        return Ceiling(None, "sysfs tells no link of the card")
    return Ceiling(found[0], f"PCIe link, {found[1]} lanes")
