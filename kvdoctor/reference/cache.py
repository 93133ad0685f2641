"""The KV pages of all blocks and layers, in one piece of memory a block."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.kvformat import KvFormat, kv_format
from kvdoctor.reference.memory import empty


@dataclass(frozen=True, slots=True)
class Pages:
    """One layer's view of all blocks, heads and tokens, whatever the order in memory.

    keys and values [blocks, kv_heads, page, elements]; scales [blocks, kv_heads, page, scales] or None.
    """

    keys: Tensor
    values: Tensor
    key_scales: Tensor | None
    value_scales: Tensor | None
    offsets: tuple[int, int, int, int]
    """Bytes from the start of a block to the layer's keys, values and their scales."""


class PagedCache:
    """`blocks` blocks of `page` tokens for all layers. A block is one contiguous piece: what tiers move.

    On a CPU the keys of a page are stored transposed, [dim, page], so that a vector register holds tokens and a
    score needs no horizontal sum; on a GPU a token's keys are contiguous.
    """

    def __init__(
        self,
        config: ModelConfig,
        blocks: int,
        page: int,
        *,
        dtype: str | None = None,
        device: str = "cpu",
    ) -> None:
        self.config = config
        self.blocks = blocks
        self.page = page
        self.format: KvFormat = kv_format(dtype or config.dtype)
        self.transposed = device in ("cpu", "meta")
        form, heads = self.format, config.kv_heads
        self.head_bytes = page * form.vector_bytes(config.head_dim)
        self.scale_bytes = page * form.scale_bytes
        self.layer_bytes = 2 * heads * (self.head_bytes + self.scale_bytes)
        self.block_bytes = config.layers * self.layer_bytes
        self.memory: Tensor = empty((blocks, self.block_bytes), torch.uint8, device).zero_()
        self.pages = tuple(self._layer(layer) for layer in range(config.layers))
        self._staging: dict[int, Tensor] = {}

    def token_bytes(self) -> int:
        """Bytes that one layer stores for one token, scales included."""
        return self.layer_bytes // self.page

    def write(self, layer: int, slots: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """Store keys and values [tokens, kv_heads, dim] at (blocks, offsets), one slot a token."""
        pages, (blocks, offsets) = self.pages[layer], slots
        for into, scales_into, given in (
            (pages.keys, pages.key_scales, keys),
            (pages.values, pages.value_scales, values),
        ):
            stored, scales = self.format.encode(given)
            into[blocks, :, offsets] = stored
            if scales is not None and scales_into is not None:
                scales_into[blocks, :, offsets] = scales

    def read(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of some blocks in fp32, [kv_heads, len(blocks) * page, dim] each: a copy."""
        pages = self.pages[layer]
        found = []
        for stored, scales in ((pages.keys, pages.key_scales), (pages.values, pages.value_scales)):
            some = self.format.decode(stored[blocks], scales[blocks] if scales is not None else None)
            found.append(some.transpose(0, 1).flatten(1, 2))
        return found[0], found[1]

    def outgoing(self, block: int) -> memoryview:
        """The bytes of a block; on a GPU a copy of them."""
        row = self.memory[block]
        return _bytes(row if self.transposed else row.cpu())

    def incoming(self, block: int) -> memoryview:
        """Memory to fill for a block: its own, or on a GPU a pinned buffer until `arrived`."""
        if self.transposed:
            return _bytes(self.memory[block])
        buffer = torch.empty(self.block_bytes, dtype=torch.uint8, pin_memory=True)
        self._staging[block] = buffer
        return _bytes(buffer)

    def arrived(self, block: int) -> None:
        """Copy a filled buffer to the GPU."""
        if not self.transposed:
            self.memory[block].copy_(self._staging.pop(block))

    def _layer(self, layer: int) -> Pages:
        """The views of one layer."""
        heads, start = self.config.kv_heads, layer * self.layer_bytes
        sizes = (self.head_bytes, self.head_bytes, self.scale_bytes, self.scale_bytes)
        offsets = [start]
        for size in sizes[:3]:
            offsets.append(offsets[-1] + heads * size)
        width = self.format.elements(self.config.head_dim)
        keys = self._view(offsets[0], self.format.dtype, width, is_key=True)
        values = self._view(offsets[1], self.format.dtype, width)
        scale, scales = self.format.scale, self.format.scales
        both = [self._view(at, scale, scales) if scale else None for at in offsets[2:]]
        return Pages(keys, values, both[0], both[1], (offsets[0], offsets[1], offsets[2], offsets[3]))

    def _view(self, offset: int, dtype: torch.dtype, width: int, *, is_key: bool = False) -> Tensor:
        """[blocks, heads, page, width] from a byte offset on."""
        size = dtype.itemsize
        typed = self.memory.view(dtype)
        last = (1, self.page) if is_key and self.transposed else (width, 1)
        strides = (self.block_bytes // size, self.page * width, *last)
        shape = (self.blocks, self.config.kv_heads, self.page, width)
        return typed.as_strided(shape, strides, typed.storage_offset() + offset // size)


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous CPU tensor, without NumPy. Valid while the tensor is."""
    array = (ctypes.c_uint8 * tensor.numel()).from_address(tensor.data_ptr())
    array.owner = tensor
    return memoryview(array).cast("B")
