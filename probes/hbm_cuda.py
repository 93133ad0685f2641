"""HBM read, copied and written by a GPU. Not run on a card yet; its arithmetic is the same as the CPU's."""

from __future__ import annotations

from typing import Any

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import cuda
from kvdoctor.probes.child import Tell
from kvdoctor.probes.hbm import WITHIN
from kvdoctor.probes.timing import Ceiling, Pace, Row, measure

LEAST = 256 * 2**20
COMPARED = 2**24
"""Elements that are compared at once: the card makes a byte of each, for which there must be room."""
CACHES = 8
"""L2 caches that a buffer is large at least."""


def run_cuda(name: str, size: int, shared: bool, tell: Tell) -> dict[str, Any]:
    """Measure one card; Unavailable where its memory is taken."""
    import torch

    device = cuda.device_of(name)
    size = size or max(LEAST, CACHES * cuda.cache_bytes(device))
    cuda.require_memory(device, 2 * size)
    ceiling, pace = cuda.memory_ceiling(device), Pace(shared)
    tell("filling buffers with random data", 0.0)
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device=device)
    rows = _rows(source, torch.empty_like(source), ceiling, pace, tell)
    return {
        "probe": "hbm",
        "measures": "HBM",
        "device": torch.cuda.get_device_name(device),
        "achieved_bytes_per_s": rows[0].bytes_per_s,
        "rows": [row.as_dict() for row in rows],
        "conditions": {
            "buffer_bytes": size,
            "l2_bytes": cuda.cache_bytes(device),
            **pace.about(),
            "ceiling_bytes_per_s": ceiling.bytes_per_s,
            "ceiling_basis": ceiling.basis,
            "torch": torch.__version__,
        },
    }


def _rows(source: Any, target: Any, ceiling: Ceiling, pace: Pace, tell: Tell) -> list[Row]:
    """Read, copy and write; check the copy. Beside a service until the time is used up."""
    import torch

    stream = torch.cuda.Stream(source.device)
    stream.wait_stream(torch.cuda.current_stream(source.device))
    rows: list[Row] = []
    for op, traffic, call in (
        ("read", 1, source.sum),
        ("copy", 2, lambda: target.copy_(source)),
        ("write", 1, lambda: target.fill_(7)),
    ):
        if rows and pace.used_up:
            break
        tell(f"HBM {op}", (len(rows) + 1) / 4)
        rows.append(
            measure(
                op,
                lambda call=call: cuda.event_seconds(call, stream, times=WITHIN),  # type: ignore[misc]
                payload=source.nbytes,
                block=source.nbytes,
                ceiling=ceiling,
                traffic=traffic,
                pace=pace,
                within=WITHIN,
                conditions={"traffic_per_payload": traffic, "by": f"torch {op}"},
            )
        )
        if op == "copy" and not _same(source, target):
            raise KvdoctorError("a copy within HBM arrived changed", "look at the card's ECC counters")
    return rows


def _same(source: Any, target: Any) -> bool:
    """Say whether two buffers hold the same."""
    import torch

    starts = range(0, source.numel(), COMPARED)
    return all(torch.equal(source[at : at + COMPARED], target[at : at + COMPARED]) for at in starts)
