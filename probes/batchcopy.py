"""The CUDA driver's batched copy, called without a binding. Not run on a card yet.

The driver exports two forms: `cuMemcpyBatchAsync_v2` (CUDA 13, eight arguments) and `cuMemcpyBatchAsync` (CUDA 12.8),
which has a pointer for the failed copy's index before the stream. A wrong count would be taken as the stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError

LIBRARY = "libcuda.so.1"
STREAM_ORDER = 1


class Attributes(ctypes.Structure):
    """CUmemcpyAttributes: access order, two hints of (type, id), flags; 24 bytes."""

    _fields_ = [
        ("order", ctypes.c_uint),
        ("source_hint", ctypes.c_uint * 2),
        ("target_hint", ctypes.c_uint * 2),
        ("flags", ctypes.c_uint),
    ]


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """The call, and whether it takes a pointer for the failed index."""

    call: Any
    has_index: bool

    @classmethod
    def load(cls, library: str = LIBRARY) -> BatchCopy | None:
        """Find the call in the driver; None for a driver that is older than it."""
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            return None
        for name, has_index in (("cuMemcpyBatchAsync_v2", False), ("cuMemcpyBatchAsync", True)):
            call = getattr(driver, name, None)
            if call is not None:
                return cls(call, has_index)
        return None

    def submit(self, into: Sequence[int], source: Sequence[int], block: int, stream: int) -> None:
        """Submit one copy of `block` bytes for each pair of addresses; KvdoctorError with the driver's code."""
        count = len(into)
        targets, sources = (ctypes.c_uint64 * count)(*into), (ctypes.c_uint64 * count)(*source)
        sizes = (ctypes.c_size_t * count)(*([block] * count))
        about, first = Attributes(order=STREAM_ORDER), ctypes.c_size_t(0)
        index = [ctypes.byref(ctypes.c_size_t(0))] if self.has_index else []
        code = self.call(
            targets,
            sources,
            sizes,
            ctypes.c_size_t(count),
            ctypes.byref(about),
            ctypes.byref(first),
            ctypes.c_size_t(1),
            *index,
            ctypes.c_void_p(stream),
        )
        if code:
            raise KvdoctorError(
                f"the driver refused a batched copy: CUDA error {code}", "report card and driver"
            )
