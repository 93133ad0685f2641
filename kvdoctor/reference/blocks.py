"""The pool of KV blocks: reference counts, a prefix cache keyed by hash chains, LRU eviction. No tensors."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from kvdoctor.errors import KvdoctorError

# 16 bytes: a collision would show one request another's KV, so nothing shorter.
_DIGEST = 16

Evicted = Callable[[int, bytes], None]


def block_hashes(
    tokens: Sequence[int], block_size: int, salt: str = "", known: Sequence[bytes] = ()
) -> list[bytes]:
    """One hash for every full block of token ids, each over its own tokens and the hash before it.

    `known` are the hashes of the first blocks, so that a growing sequence hashes only what is new.
    """
    found = list(known)
    parent = found[-1] if found else hashlib.blake2b(salt.encode(), digest_size=_DIGEST).digest()
    for start in range(len(found) * block_size, len(tokens) - block_size + 1, block_size):
        own = array("q", tokens[start : start + block_size]).tobytes()
        parent = hashlib.blake2b(parent + own, digest_size=_DIGEST).digest()
        found.append(parent)
    return found


class BlockPool:
    """Blocks by number. A block is referenced (in a table), cached (free, content known) or empty.

    Free blocks wait in one queue, least recently used first; taking one that is cached evicts it, after
    `on_evict(block, hash)` has had the chance to move its content elsewhere.
    """

    def __init__(
        self, blocks: int, block_size: int, *, caching: bool = True, on_evict: Evicted | None = None
    ) -> None:
        if blocks < 1 or block_size < 1:
            raise KvdoctorError("a pool needs at least one block of at least one token", "check the sizes")
        self.blocks = blocks
        self.block_size = block_size
        self.caching = caching
        self.on_evict = on_evict
        self.evictions = 0
        self._references = [0] * blocks
        self._hashes: list[bytes | None] = [None] * blocks
        # Blocks of equal content may exist twice (two requests computed it at once); all are kept, in order.
        self._index: dict[bytes, dict[int, None]] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))

    @property
    def free(self) -> int:
        """Blocks that nobody references, cached ones included."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """Free blocks whose content is known."""
        return sum(1 for block in self._free if self._hashes[block] is not None)

    @property
    def usage(self) -> float:
        """Share of the blocks that are referenced, 0..1."""
        return 1.0 - len(self._free) / self.blocks

    def references(self, block: int) -> int:
        """Tables that hold the block."""
        return self._references[block]

    def match(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks of the longest known prefix. Takes no reference: share them before anything else."""
        found: list[int] = []
        for key in hashes:
            if not (same := self._index.get(key)):
                break
            found.append(next(iter(same)))
        return found

    def share(self, blocks: Iterable[int]) -> None:
        """Take a reference on blocks that `match` found; nothing is copied."""
        for block in blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def allocate(self, count: int) -> list[int] | None:
        """Take `count` blocks with unknown content, or None where fewer are free: then nothing changes."""
        if count > len(self._free):
            return None
        taken = []
        for _ in range(count):
            block, _ = self._free.popitem(last=False)
            self._forget(block)
            self._references[block] = 1
            taken.append(block)
        return taken

    def seal(self, block: int, key: bytes) -> None:
        """Publish a full, referenced block under its hash."""
        if self._references[block] == 0:
            raise KvdoctorError(f"block {block} is sealed while free", "seal blocks before they are released")
        if self.caching and self._hashes[block] is None:
            self._hashes[block] = key
            self._index.setdefault(key, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Drop a reference on each. The last block of a chain is evicted first, as it is of use to fewest."""
        for block in reversed(blocks):
            if self._references[block] <= 0:
                raise KvdoctorError(f"block {block} is released twice", "release each table once")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if self._hashes[block] is None:
                    self._free.move_to_end(block, last=False)

    def evict(self, blocks: Iterable[int]) -> None:
        """Forget free blocks at once; referenced ones stay."""
        for block in blocks:
            if self._references[block] == 0:
                self._forget(block)
                self._free.move_to_end(block, last=False)

    def hash_of(self, block: int) -> bytes | None:
        """The hash under which a block is published."""
        return self._hashes[block]

    def _forget(self, block: int) -> None:
        """Drop a block from the index, telling `on_evict` when its content is lost with it."""
        key = self._hashes[block]
        if key is None:
            return
        same = self._index[key]
        del same[block]
        self._hashes[block] = None
        if not same:
            del self._index[key]
            self.evictions += 1
            if self.on_evict:
                self.on_evict(block, key)
