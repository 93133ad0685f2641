"""The model of a lab server, and how fast this machine reads memory: the parts of the lab that need torch."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Mapping

import torch

from kvdoctor.lab.settings import Settings
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.config import config_of
from kvdoctor.reference.library import library
from kvdoctor.reference.memory import empty
from kvdoctor.reference.model import Transformer
from kvdoctor.reference.weights import random_weights

_SEED = 1
_READ_BYTES = 256 * 2**20
"""More than any cache of a CPU."""
_READ_S = 1.5


def model_and_cache(config: Mapping[str, object], settings: Settings) -> tuple[Transformer, PagedCache]:
    """Random weights in the shape of a config, and the pool's memory."""
    torch.set_num_threads(settings.threads)
    shape = config_of(config)
    cache = PagedCache(shape, settings.pool_blocks, settings.block_size)
    return Transformer(shape, random_weights(shape, seed=_SEED), cache), cache


def read_bytes_per_s(threads: int = 1) -> float:
    """Highest rate of some plain reads of memory beyond the caches, bytes/s: the ceiling, were we alone here."""
    torch.set_num_threads(threads)
    data = empty((_READ_BYTES // 4,), torch.float32).fill_(1.0)
    _read(data, threads)
    best, end = 0.0, time.perf_counter() + _READ_S
    while (started := time.perf_counter()) < end:
        _read(data, threads)
        best = max(best, _READ_BYTES / (time.perf_counter() - started))
    return best


def _read(data: torch.Tensor, threads: int) -> float:
    """Read everything once."""
    found = library()
    if found is None:
        return float(data.sum())
    return float(found.kv_read(ctypes.c_void_p(data.data_ptr()), data.numel(), threads))


def main() -> None:
    """Print the rate as JSON: `python -m kvdoctor.lab.model`."""
    sys.stdout.write(json.dumps({"read_bytes_per_s": read_bytes_per_s()}) + "\n")


if __name__ == "__main__":
    main()
