"""The engine of the decode probe on a device: weights, shuffled pages, one step, and a read of the same memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kvdoctor.errors import Unavailable
from kvdoctor.probes import cuda, manners
from kvdoctor.probes.decode_plan import PAGE
from kvdoctor.probes.timing import BURST_S, Pace, timed
from kvdoctor.reference.batch import Batch, decode_batch
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.graphs import GraphedDecode
from kvdoctor.reference.library import library, unavailable
from kvdoctor.reference.model import Transformer
from kvdoctor.reference.weights import Weights, random_weights

SEED = 1
_SMALL = 1000
"""Tensors so many times smaller than the largest are left out of the plain read."""
FILL_BYTES = 64 * 2**20
"""Random pages that are made; the other pages are copies of them."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where the engine runs, and how its time is taken."""

    name: str
    place: str
    """As torch names it: cpu, cuda:0."""

    @property
    def is_host(self) -> bool:
        """Whether it is the CPU."""
        return self.place == "cpu"

    @property
    def cache(self) -> int:
        """Bytes of its last caches."""
        return manners.last_level_cache() if self.is_host else cuda.cache_bytes(torch.device(self.place))

    def room(self) -> int:
        """Bytes that may be taken: half of what is free, beside a margin."""
        if self.is_host:
            return manners.room()
        return max(0, int(torch.cuda.mem_get_info(self.place)[0]) - cuda.MARGIN) // 2

    def reserve(self, size: int) -> None:
        """Raise Unavailable where `size` bytes are not free after all; on a GPU, take no more than them."""
        if self.is_host:
            manners.require_memory(size, "the decode probe")
            return
        torch.cuda.set_device(self.place)
        cuda.require_memory(torch.device(self.place), size)

    @property
    def threads(self) -> int:
        """Threads that compute; 0 on a GPU, where the CPU only waits."""
        return int(torch.get_num_threads()) if self.is_host else 0

    def seconds(self, work: Callable[[], object]) -> float:
        """Time of one call, on a GPU between two events."""
        if self.is_host:
            return timed(lambda: (work(), None)[1])
        return cuda.event_seconds(lambda: (work(), None)[1], torch.cuda.current_stream(self.place))

    def read(self, memory: list[Tensor]) -> float:
        """Seconds of a plain read of some tensors, every byte once."""
        return self.seconds(lambda: [_read(tensor) for tensor in memory])

    def conditions(self, *, native: bool) -> dict[str, Any]:
        """What a figure depends on."""
        found: dict[str, Any] = {"torch": str(torch.__version__), "device": self.place}
        if self.is_host:
            missing = unavailable() if native else "asked for"
            path = f"torch ({missing})" if missing else "compiled"
            found |= {"threads": self.threads, "path": path, "load_average": os.getloadavg()[0]}
            found["processor"] = _processor()
        return found


def _processor() -> str:
    """What the kernel calls the processor; empty where it does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def device_of(name: str) -> Device:
    """The device of `auto`, `cpu` or `cuda:N`. Raises Unavailable for a GPU that is not there."""
    missing = cuda.missing()
    if name == "cpu" or (name == "auto" and missing is not None):
        return Device("CPU", "cpu")
    if missing is not None:
        raise missing
    found = str(cuda.device_of(name))
    return Device(torch.cuda.get_device_name(found), found)


def _read(tensor: Tensor) -> object:
    """Read a tensor once: compiled on a CPU, else torch's sum."""
    found = None if tensor.is_cuda else library()
    if found is None:
        return tensor.view(torch.int32).sum()
    return found.kv_read(tensor.data_ptr(), tensor.nbytes // 4, torch.get_num_threads())


class Bench:
    """Some layers of a model with their KV."""

    def __init__(self, model: Transformer, batch: Batch, device: Device) -> None:
        self.model = model
        self.device = device
        self.layers = model.config.layers
        self.kv_error: float = kv_error(model.cache)
        self._batch = batch
        # One step in untimed, so that the experts that it chooses are counted.
        _, experts = model.logits(batch)
        self.bytes = model.weights.fixed_bytes() + experts + model.kv_bytes(batch)
        self._memory = _streamed(model.weights, model.cache)
        self.read_bytes = sum(int(tensor.nbytes) for tensor in self._memory)

        self._graph = (
            GraphedDecode(model, batch) if batch.tokens.is_cuda and not model.config.experts else None
        )

    def step(self) -> float:
        """Seconds of one decode step with its choice of tokens: on a GPU as one CUDA graph."""
        if self._graph is not None:
            graph = self._graph
            return self.device.seconds(lambda: graph.logits().argmax(-1))
        return self.launched()

    def launched(self) -> float:
        """The same, kernel by kernel."""
        return self.device.seconds(lambda: self.model.logits(self._batch)[0].argmax(-1))

    def read(self) -> float:
        """Seconds of a plain read of all memory of the model and its KV."""
        return self.device.read(self._memory)

    def bytes_of(self, layers: int) -> int:
        """Bytes of a step of the same model with so many layers, by the layers that were built."""
        outside = int(self.model.weights.head.nbytes + self.model.weights.norm.nbytes)
        return outside + round((self.bytes - outside) * layers / self.layers)


def bench_of(
    config: ModelConfig,
    wanted: tuple[int, int, str],
    counts: tuple[int, ...],
    device: Device,
    *,
    native: bool = True,
    pace: Pace | None = None,
) -> list[Bench]:
    """A bench for each number of layers, the smaller ones made of the first layers of the largest.

    `wanted` is the batch, the context and the KV dtype; `pace` rests while they are built, beside a service.
    """
    pace = pace or Pace()
    rows, context, kv_dtype = wanted
    torch.manual_seed(SEED)
    columns = -(-context // PAGE)
    weights = _weights(config, device, pace)
    with pace.working():
        cache = PagedCache(config, rows * columns, PAGE, dtype=kv_dtype, device=device.place)
    fill(cache, pace)
    tables = torch.randperm(cache.blocks).view(rows, columns).int().to(device.place)
    lengths = torch.full((rows,), context, dtype=torch.int32, device=device.place)
    tokens = torch.randint(config.vocab, (rows,), device=device.place)
    batch = decode_batch(tokens, tables, lengths, PAGE)
    found: list[Bench] = []
    for count in counts:
        part = Weights(weights.embedding, weights.layers[:count], weights.norm, weights.head)
        model = Transformer(config.with_layers(count), part, cache, native=native)
        if device.is_host:
            with pace.working():
                found.append(Bench(model, batch, device))
        else:  # most of it is the processor's: kernels compiled, a graph captured, and a few steps
            found.append(Bench(model, batch, device))
            pace.rest(BURST_S)
    return found


def _weights(config: ModelConfig, device: Device, pace: Pace) -> Weights:
    if not pace.shared:
        return random_weights(config, seed=SEED, device=device.place)
    from kvdoctor.probes.decode_gentle import weights

    return weights(config, SEED, device, pace)


def fill(cache: PagedCache, pace: Pace) -> None:
    """Random keys and values in every page, encoded as the format wants them."""
    some = max(1, min(cache.blocks, FILL_BYTES // cache.block_bytes))
    config, place = cache.config, cache.memory.device
    slots = torch.arange(some * cache.page, device=place)
    for layer in range(config.layers):
        with pace.working():
            keys, values = torch.randn(2, len(slots), config.kv_heads, config.head_dim, device=place)
            cache.write(layer, (slots // cache.page, slots % cache.page), keys, values)
    for start in range(some, cache.blocks, some):
        with pace.working():
            count = min(some, cache.blocks - start)
            cache.memory[start : start + count] = cache.memory[:count]


def kv_error(cache: PagedCache) -> float:
    """Root mean square error of the KV dtype on random vectors, relative to their size."""
    values = torch.randn(256, cache.config.head_dim, device=cache.memory.device)
    back = cache.format.decode(*cache.format.encode(values))
    return float((back - values).square().mean().sqrt() / values.square().mean().sqrt())


def _streamed(weights: Weights, cache: PagedCache) -> list[Tensor]:
    """What the plain read reads: all weights and KV but for vectors, whose calls cost more than they."""
    found = [weights.head, weights.norm, cache.memory]
    for layer in weights.layers:
        found += [*layer.fixed(), *(x for x in (layer.experts_gate_up, layer.experts_down) if x is not None)]
    least = max(int(tensor.nbytes) for tensor in found) // _SMALL
    found = [tensor for tensor in found if tensor.nbytes >= least]
    if any(tensor.nbytes % 4 for tensor in found):
        raise Unavailable("a tensor of this shape is no whole number of words", "take even sizes")
    return found
