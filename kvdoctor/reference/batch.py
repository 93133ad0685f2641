"""The tensors of one step: which tokens, at which positions, in which slots."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvdoctor.reference.attention import Rows
from kvdoctor.reference.request import Phase, Plan, Work


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tokens of one sequence: rows `first` to `first + count` of the batch."""

    first: int
    count: int
    table: Tensor
    length: int
    """Tokens of the sequence up to and with the chunk."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of single-token decode first, then the chunks of prefills."""

    tokens: Tensor
    positions: Tensor
    slots: tuple[Tensor, Tensor]
    """Block and offset of each token's KV."""
    decode: Rows | None
    chunks: tuple[Chunk, ...]
    samples: Tensor
    """Rows whose logits are wanted."""
    lengths: tuple[tuple[int, int], ...]
    """(tokens, length) of each sequence, for the count of bytes."""

    @property
    def rows(self) -> int:
        """Single-token rows."""
        return 0 if self.decode is None else len(self.decode.lengths)


def decode_batch(tokens: Tensor, tables: Tensor, lengths: Tensor, page: int) -> Batch:
    """One token for each sequence. `lengths` [rows] count it; all on the device of the model, int32 but tokens."""
    positions = lengths.long() - 1
    blocks = tables.gather(1, (positions // page)[:, None])[:, 0].long()
    told = tuple((1, int(length)) for length in lengths.tolist())
    rows = torch.arange(len(tokens), device=tokens.device)
    return Batch(tokens, positions, (blocks, positions % page), Rows(tables, lengths), (), rows, told)


def batch_of(plan: Plan, page: int, device: str = "cpu") -> tuple[Batch, tuple[str, ...]]:
    """The batch of a plan, and the names of the requests that its samples belong to, in order."""
    single = [work for work in plan.work if work.count == 1]
    several = [work for work in plan.work if work.count > 1]
    ordered = single + several
    tokens = [token for work in ordered for token in _tokens(work)]
    positions = [at for work in ordered for at in range(work.start, work.start + work.count)]
    blocks = [
        work.request.table[at // page]
        for work in ordered
        for at in range(work.start, work.start + work.count)
    ]
    last, rows, names = 0, [], []
    for work in ordered:
        last += work.count
        if work.samples:
            rows.append(last - 1)
            names.append(work.request.name)
    whole = torch.tensor([tokens, positions, blocks], device=device)
    batch = Batch(
        whole[0],
        whole[1],
        (whole[2], whole[1] % page),
        _rows(single, device) if single else None,
        tuple(_chunks(several, len(single), device)),
        torch.tensor(rows, dtype=torch.long, device=device),
        tuple((work.count, work.start + work.count) for work in ordered),
    )
    return batch, tuple(names)


def _tokens(work: Work) -> list[int]:
    """The token ids that one piece of work computes."""
    request = work.request
    if work.phase is Phase.DECODE:
        return [request.output[-1]]
    return list(request.tokens[work.start : work.start + work.count])


def _rows(single: list[Work], device: str) -> Rows:
    """Tables, padded with block 0, and lengths."""
    columns = max(len(work.request.table) for work in single)
    tables = [work.request.table + [0] * (columns - len(work.request.table)) for work in single]
    lengths = [work.start + 1 for work in single]
    return Rows(
        torch.tensor(tables, dtype=torch.int32, device=device),
        torch.tensor(lengths, dtype=torch.int32, device=device),
    )


def _chunks(several: list[Work], first: int, device: str) -> list[Chunk]:
    """The chunks, in the order of their rows."""
    found = []
    for work in several:
        table = torch.tensor(work.request.table, dtype=torch.int32, device=device)
        found.append(Chunk(first, work.count, table, work.start + work.count))
        first += work.count
    return found
