"""A decode step as one CUDA graph: what it saves over kernel by kernel is the launch overhead."""

from __future__ import annotations

import torch
from torch import Tensor

from kvdoctor.errors import Unavailable
from kvdoctor.reference.batch import Batch
from kvdoctor.reference.model import Transformer

# Compiles every Triton variant and lets the allocator settle; compiling inside a capture fails.
_WARM_UP = 3


class GraphedDecode:
    """One batch of single-token rows, captured. Lengths, slots and tokens may change in place between replays.

    Raises Unavailable on a CPU, and for experts, whose choice comes back to the host. Not run on a card yet.
    """

    def __init__(self, model: Transformer, batch: Batch) -> None:
        if not model.weights.norm.is_cuda:
            raise Unavailable("CUDA graphs need a CUDA device", "run on a GPU")
        if model.config.experts:
            raise Unavailable(
                "the choice of experts comes back to the host in every layer", "run without graphs"
            )
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                model.logits(batch)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits, _ = model.logits(batch)

    def logits(self) -> Tensor:
        """Replay the step; the logits are overwritten by the next replay."""
        self._graph.replay()
        return self._logits
