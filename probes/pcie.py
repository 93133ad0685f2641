"""Copies between host and GPU: large and small, pinned and pageable, both ways, and a KV cache's scattered blocks.

Footprint: 1.5 GiB pinned in the host at most, 1.5 GiB and a context of a GPU, and up to about 30 seconds. Not run on a
card yet: its arithmetic is tested with a card made of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvdoctor.errors import Absent, Unavailable
from kvdoctor.probes import manners
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.timing import Ceiling, Pace, Row, measure

KIB, MIB = 2**10, 2**20
SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 64 * MIB, 512 * MIB)
BLOCKS = (4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, 2 * MIB)
"""Sizes of one block's K or V in one layer: from a tensor-parallel rank's to a merged layout's."""
PIECES, MOST_SCATTERED = 2000, 256 * MIB
"""Blocks of one scattered copy, and their bytes together at most."""
SHARED_SIZES, SHARED_BLOCKS = (64 * KIB, MIB, 64 * MIB), (32 * KIB, 2 * MIB)
"""Fewer of both beside a service: each burst within 50 ms, also a pageable one, and all within a second."""
KNEE = 0.8
"""Share of the link's rate at which small pieces are free."""
PINNED_SHARE, MOST_PINNED = 0.05, 2**30
"""Pinned memory cannot be swapped: at most this share of what is available, and 1 GiB."""
DIRECTIONS = ("h2d", "d2h")
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    device: str = "auto"
    size: int = 0
    """Bytes of the largest copy; 0 takes 512 MiB, or less where memory is short."""
    blocks: tuple[int, ...] = ()
    """The target's own: bytes of one block's K or V in one layer."""
    shared: bool = False
    """Somebody else computes on the GPU: short bursts with rests between them."""


class Copier(Protocol):
    """A card that copies. Times are the device's seconds of one copy."""

    name: str
    ceiling: Ceiling
    """Of one direction."""

    def copy(self, direction: str, size: int, *, pinned: bool) -> float: ...

    def both(self, size: int) -> float: ...

    def scattered(self, direction: str, block: int, pieces: int, method: str) -> float:
        """Copy that many blocks from and to places of chance; the seconds include their submission."""
        ...

    def methods(self) -> tuple[str, ...]:
        """Return the ways to copy scattered blocks that this machine has."""
        ...

    def peers(self) -> Iterator[tuple[str, float, int]]:
        """Yield (name, seconds, bytes) of a copy to each other card that can be reached directly."""
        ...

    def about(self) -> dict[str, Any]:
        """Return the link's generation and width during a copy, and what was verified."""
        ...


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    size = _largest(options)
    return Footprint(
        SECONDS,
        host_bytes=2 * size + MOST_SCATTERED,
        device_bytes=2 * size + 2 * MOST_SCATTERED + 2**30,
        moved_bytes=60 * size,
        loads="the link between host and GPU, and some HBM bandwidth",
    )


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Measure the link of one card; Unavailable without one."""
    from kvdoctor.probes import cuda

    missing = cuda.missing()
    if missing is not None:
        raise Absent(f"copies between host and GPU need one: {missing.reason}", missing.cure)
    size = _largest(options)
    if size < 4 * MIB:
        raise Unavailable(
            "too little memory may be pinned here", "free some, or raise the cgroup's memory.max"
        )
    manners.require_memory(2 * size + MOST_SCATTERED, "the PCIe probe")
    from kvdoctor.probes.pcie_cuda import Cuda

    return measured(Cuda(options.device, size, MOST_SCATTERED), size, options, tell)


def _largest(options: Options) -> int:
    """Return the bytes of the largest copy: what may be pinned, twice, in a power of two as torch's allocator takes."""
    allowed = min(MOST_PINNED, int(PINNED_SHARE * manners.room() / manners.SHARE)) // 2
    most = SHARED_SIZES[-1] if options.shared else MOST_PINNED
    wanted = min(options.size or SIZES[-1], allowed, most)
    return 1 << (max(1, wanted).bit_length() - 1)


def measured(card: Copier, size: int, options: Options, tell: Tell) -> dict[str, Any]:
    """Measure a card in every way and return the JSON object."""
    pace = Pace(options.shared)
    tell("large copies", 0.0)
    sizes = SHARED_SIZES if options.shared else SIZES
    rows = [*_plain(card, size, sizes, pace), *_both(card, size, pace)]
    best = {
        way: max(r.bytes_per_s for r in rows if r.op == "pinned" and r.direction == way) for way in DIRECTIONS
    }
    tell("scattered blocks", 0.4)
    blocks = tuple(sorted({*(SHARED_BLOCKS if options.shared else BLOCKS), *options.blocks}))
    scattered = list(_scattered(card, blocks, pace))
    tell("other cards", 0.9)
    rows += scattered + _peers(card)
    return {
        "probe": "pcie",
        "measures": "host to GPU and back",
        "device": card.name,
        "rows": [row.as_dict() for row in rows],
        "knee_bytes": {
            f"{way}, {method}": knee(scattered, way, method, best[way])
            for way in DIRECTIONS
            for method in card.methods()
        },
        "conditions": {
            **card.about(),
            **pace.about(),
            "ceiling_bytes_per_s": card.ceiling.bytes_per_s,
            "ceiling_basis": card.ceiling.basis,
        },
    }


def _plain(card: Copier, size: int, sizes: Sequence[int], pace: Pace) -> Iterator[Row]:
    for length in (length for length in sizes if length <= size):
        for way in DIRECTIONS:
            for pinned in (True, False):
                yield measure(
                    "pinned" if pinned else "pageable",
                    lambda length=length, way=way, pinned=pinned: card.copy(way, length, pinned=pinned),  # type: ignore[misc]
                    payload=length,
                    block=length,
                    ceiling=card.ceiling,
                    pace=pace,
                    direction=way,
                )


def _both(card: Copier, size: int, pace: Pace) -> Iterator[Row]:
    """Both directions at once: the bytes of both over the time in which both were under way."""
    twice = None if card.ceiling.bytes_per_s is None else 2 * card.ceiling.bytes_per_s
    yield measure(
        "both ways",
        lambda: card.both(size),
        payload=2 * size,
        block=size,
        ceiling=Ceiling(twice, card.ceiling.basis),
        pace=pace,
        direction="both",
    )


def _scattered(card: Copier, blocks: Sequence[int], pace: Pace) -> Iterator[Row]:
    for block in blocks:
        pieces = max(1, min(PIECES, MOST_SCATTERED // block))
        for method in card.methods():
            for way in DIRECTIONS:
                if pace.used_up:
                    return
                yield measure(
                    f"blocks {method}",
                    lambda way=way, block=block, pieces=pieces, method=method: card.scattered(
                        way, block, pieces, method
                    ),  # type: ignore[misc]
                    payload=block * pieces,
                    block=block,
                    ceiling=card.ceiling,
                    pace=pace,
                    direction=way,
                    conditions={"pieces": pieces, "method": method, "includes": "submission"},
                )


def knee(rows: Sequence[Row], way: str, method: str, best: float) -> int | None:
    """Return the smallest block from which this and all larger ones reach the share of the link; None: none does."""
    found = None
    fitting = [r for r in rows if r.direction == way and r.conditions.get("method") == method]
    for row in sorted(fitting, key=lambda row: -row.block_bytes):
        if row.bytes_per_s < KNEE * best:
            break
        found = row.block_bytes
    return found


def _peers(card: Copier) -> list[Row]:
    return [
        Row("peer", size, size / seconds, (size / seconds,), direction=name)
        for name, seconds, size in card.peers()
    ]
