"""The prefix of a request that is there already: shared with others in the pool, or promised by a far tier."""

from __future__ import annotations

from kvdoctor.reference.blocks import BlockPool, block_hashes
from kvdoctor.reference.request import Far, Load, Phase, Request


def claim(request: Request, pool: BlockPool, far: Far | None) -> Load | None:
    """Share what the pool holds of a prefix; a Load where a far tier holds more and the pool has room."""
    size = pool.block_size
    request.hashes = block_hashes(request.tokens, size, request.salt, request.hashes)
    # The last token is computed in any case: its logits are wanted.
    wanted = request.hashes[: (request.length - 1) // size] if pool.caching else []
    found = pool.match(wanted)
    pool.share(found)
    request.table = found
    request.sealed = len(found)
    request.computed = len(found) * size
    return _promised(request, wanted[len(found) :], pool, far)


def _promised(request: Request, rest: list[bytes], pool: BlockPool, far: Far | None) -> Load | None:
    """Ask the far tiers for what the pool lacks."""
    count = far.promise(rest) if far and rest and request.fetches else 0
    if not far or not count:
        return None
    blocks = pool.allocate(count)
    if blocks is None:
        far.forgo(rest[:count])
        return None
    request.table += blocks
    request.phase = Phase.LOADING
    request.promised += count * pool.block_size
    return Load(request, tuple(blocks), tuple(rest[:count]))
