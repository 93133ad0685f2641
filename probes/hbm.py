"""Memory bandwidth: a GPU's HBM, or system memory on a machine without a GPU, and called that.

Footprint: two buffers of at least 256 MiB and of four last-level caches, and up to about 5 seconds. Beside a service
at least 64 MiB where the caches are known; each burst goes on where the last ended, so that none is answered from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kvdoctor.errors import Unavailable
from kvdoctor.probes import manners
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.sysmem import MOST_PASSES, TILE, Threads
from kvdoctor.probes.timing import (
    BURST_S,
    MOST_WARM,
    REPEATS,
    SHARED_REPEATS,
    SHARED_WARM,
    Ceiling,
    Pace,
    Row,
    measure,
)

LEAST = 256 * 2**20
LEAST_SHARED = 64 * 2**20
"""Beside a service: filling a buffer takes bandwidth too."""
CACHES = 4
"""Last-level caches that a buffer is large at least: going over two of them read a tenth faster than over four to 32
(32 MiB of cache, EPYC), and over half of one three times as fast.
"""
WITHIN = 4
"""Operations of a GPU between two events, so that a launch does not count."""
SECONDS = 20.0
PIECE = 32 * 2**20
"""Bytes of one burst of a thread beside a service: some milliseconds, and far more than starting it takes."""
SOCKET_CEILING = 1.7e12
"""Bytes/s. The fastest memory beside a processor socket (Xeon Max, 4 stacks of HBM2e: 1.64 TB/s), plus 4%."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    size: int = 0
    """Bytes of one buffer; 0 takes the smallest that no cache holds."""
    device: str = "auto"
    """`auto`, `cpu`, or a GPU: `cuda`, `cuda:1`."""
    shared: bool = False
    """Somebody else uses this memory: short bursts with rests between them."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    size = buffer_bytes(options)
    moved = 2 * MOST_PASSES * 4 * (REPEATS + MOST_WARM) * size
    if options.shared:
        burst = min(size, PIECE * len(manners.processors()))
        moved = 2 * size + 4 * (SHARED_REPEATS + SHARED_WARM) * max(burst, WITHIN * size)
    return Footprint(
        SECONDS,
        host_bytes=2 * size,
        device_bytes=2 * size,
        moved_bytes=moved,
        loads="memory bandwidth of every processor (or of the GPU)",
    )


def buffer_bytes(options: Options) -> int:
    """Return the bytes of one buffer in system memory, a whole number of tiles for each processor."""
    cache = manners.last_level_cache()
    wanted = options.size or max(LEAST_SHARED if options.shared and cache else LEAST, CACHES * cache)
    share = TILE * len(manners.processors())
    return -(-wanted // share) * share


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Measure the GPU where there is one and torch can use it, else system memory."""
    if options.device != "cpu":
        from kvdoctor.probes import cuda

        missing = cuda.missing()
        if missing is None:
            from kvdoctor.probes.hbm_cuda import run_cuda

            return run_cuda(options.device, options.size, options.shared, tell)
        if options.device != "auto":
            raise missing
        return run_system(options, tell, why=missing.reason)
    return run_system(options, tell, why="asked for")


def run_system(options: Options, tell: Tell, *, why: str) -> dict[str, Any]:
    """Measure system memory with all processors, and with one."""
    size, processors = buffer_bytes(options), manners.processors()
    manners.require_memory(2 * size, "the memory probe")
    cache = manners.last_level_cache()
    if size < CACHES * cache:
        raise Unavailable(
            f"the caches of {cache / 2**20:.0f} MiB hold a share of {size / 2**20:.0f} MiB: "
            "its rate would be partly theirs",
            f"--size {CACHES * cache // 2**20}MiB, or none",
        )
    ceiling = Ceiling(manners.sockets() * SOCKET_CEILING, "the fastest memory that sockets have")
    pace = Pace(options.shared, on_cpu=True, until=time.monotonic() + SECONDS)
    rows: list[Row] = []
    counts = (len(processors),) if options.shared else sorted({1, len(processors)})
    for step, count in enumerate(counts):
        tell(f"system memory, {count} of {len(processors)} processors", step / len(counts))
        rows += _rows(processors[:count], size // count, ceiling, pace)
    return {
        "probe": "hbm",
        "measures": "system memory",
        "device": "CPU",
        "achieved_bytes_per_s": max(row.bytes_per_s for row in rows if row.op == "read"),
        "rows": [row.as_dict() for row in rows],
        "conditions": {
            "why_not_gpu": why,
            "buffer_bytes": size,
            "last_level_cache_bytes": cache or None,
            "possible_cache_reading": not cache,
            "processors": len(processors),
            **pace.about(),
            "ceiling_bytes_per_s": ceiling.bytes_per_s,
            "ceiling_basis": ceiling.basis,
        },
    }


def _rows(processors: tuple[int, ...], slice_bytes: int, ceiling: Ceiling, pace: Pace) -> list[Row]:
    """Read, copy and write with these processors; check the copy. Beside a service until the time is used up."""
    threads = Threads(processors, slice_bytes, piece=min(PIECE, slice_bytes) if pace.shared else 0, pace=pace)
    if not pace.shared:
        threads.fill_time(BURST_S)
    rows: list[Row] = []
    for op, by, traffic, work in (
        ("read", "memchr", 1, threads.read),
        ("copy", "memcpy", 2, threads.copy),
        ("write", "memset", 1, threads.write),
    ):
        if rows and pace.used_up:
            break
        about: dict[str, Any] = {"threads": len(processors), "by": by, "traffic_per_payload": traffic}
        about |= {"passes": threads.passes, "of_bytes": threads.size * len(processors)}
        rows.append(_row(op, work, threads, ceiling, pace, traffic, about))
        if op == "copy":
            threads.verify()
    threads.close()
    return rows


def _row(
    op: str,
    work: Callable[[], float],
    threads: Threads,
    ceiling: Ceiling,
    pace: Pace,
    traffic: int,
    about: dict[str, Any],
) -> Row:
    """Measure one operation, and how much of the time we had the processors that we asked for."""
    before, cpu = pace.elapsed_s, time.process_time()
    row = measure(
        op,
        work,
        payload=threads.payload,
        block=threads.payload,
        ceiling=ceiling,
        traffic=traffic,
        pace=pace,
        within=threads.passes,
    )
    wall = (pace.elapsed_s - before) * len(threads.processors)
    about["on_processor"] = min(1.0, (time.process_time() - cpu) / wall) if wall else 1.0
    return replace(row, conditions={**about, **row.conditions})
