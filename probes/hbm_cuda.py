"""HBM read, copied and written by a GPU. Not run on a card yet; its arithmetic is the same as the CPU's."""

from __future__ import annotations

from typing import Any

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import cuda
from kvdoctor.probes.child import Tell
from kvdoctor.probes.timing import Pace, Row, measure

LEAST = 256 * 2**20
CACHES = 8
"""L2 caches that a buffer is large at least."""
WITHIN = 4
"""Operations between two events, so that a launch does not count."""


def run_cuda(name: str, size: int, shared: bool, tell: Tell) -> dict[str, Any]:
    """Measure one card; Unavailable where its memory is taken."""
    import torch

    device = cuda.device_of(name)
    size = size or max(LEAST, CACHES * cuda.cache_bytes(device))
    cuda.require_memory(device, 2 * size)
    ceiling = cuda.memory_ceiling(device)
    tell("filling buffers with random data", 0.0)
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device=device)
    target = torch.empty_like(source)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    pace = Pace(shared)
    work = {
        "read": lambda: source.sum(),
        "copy": lambda: target.copy_(source),
        "write": lambda: target.fill_(7),
    }
    rows: list[Row] = []
    for step, (op, call) in enumerate(work.items()):
        tell(f"HBM {op}", (step + 1) / 4)
        traffic = 2 if op == "copy" else 1
        rows.append(
            measure(
                op,
                lambda call=call: cuda.event_seconds(call, stream, times=WITHIN),  # type: ignore[misc]
                payload=size,
                block=size,
                ceiling=ceiling,
                traffic=traffic,
                pace=pace,
                conditions={"traffic_per_payload": traffic, "by": f"torch {op}"},
            )
        )
        if op == "copy" and not torch.equal(source, target):
            raise KvdoctorError("a copy within HBM arrived changed", "look at the card's ECC counters")
    return {
        "probe": "hbm",
        "measures": "HBM",
        "device": torch.cuda.get_device_name(device),
        "achieved_bytes_per_s": rows[0].bytes_per_s,
        "rows": [row.as_dict() for row in rows],
        "conditions": {
            "buffer_bytes": size,
            "l2_bytes": cuda.cache_bytes(device),
            "shared_with_others": shared,
            "ceiling_bytes_per_s": ceiling.bytes_per_s,
            "ceiling_basis": ceiling.basis,
            "torch": torch.__version__,
        },
    }
