"""One request, its phase, and what a step does for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kvdoctor.errors import KvdoctorError


class Phase(str, Enum):
    """Where a request stands."""

    WAITING = "waiting"
    LOADING = "loading"
    """Admitted; its KV is on the way from a far tier."""
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


class Wait(str, Enum):
    """Why the first of the waiting requests was not admitted in a step."""

    NOTHING = "nothing"
    SEQUENCES = "sequences"
    """`max_num_seqs` requests run already."""
    TOKENS = "tokens"
    """The step's token budget is spent."""
    BLOCKS = "blocks"
    """The pool has too few free blocks."""


@dataclass(slots=True, eq=False)
class Request:
    """A prompt of token ids, and everything the scheduler knows of it."""

    name: str
    prompt: tuple[int, ...]
    max_tokens: int
    salt: str = ""
    """Requests share blocks only under the same salt."""
    stop: frozenset[int] = frozenset()
    """Token ids that end the output, themselves included in it."""
    phase: Phase = Phase.WAITING
    output: list[int] = field(default_factory=list)
    computed: int = 0
    """Tokens whose KV lies in the blocks of the table."""
    table: list[int] = field(default_factory=list)
    """The block table."""
    hashes: list[bytes] = field(default_factory=list)
    sealed: int = 0
    """Blocks of the table that are published."""
    local_hits: int = 0
    """Tokens found in the pool at the first admission."""
    promised: int = 0
    """Tokens that a far tier promised at admission, over all admissions."""
    delivered: int = 0
    """Tokens that a far tier delivered."""
    fetches: bool = True
    """False after a load that fell short, until the request runs: what a tier lost is not asked for again."""
    admissions: int = 0
    preemptions: int = 0
    reason: str = ""
    """Why it finished: length, stop or abort."""

    @property
    def tokens(self) -> Sequence[int]:
        """Prompt and output together."""
        return (*self.prompt, *self.output)

    @property
    def length(self) -> int:
        """Tokens of prompt and output."""
        return len(self.prompt) + len(self.output)

    @property
    def missing(self) -> int:
        """Tokens whose KV is still to be computed; one in plain decode."""
        return self.length - self.computed


def require_fit(request: Request, blocks: int, block_size: int) -> None:
    """Raises KvdoctorError for a request that an empty pool could not hold to its end."""
    most = len(request.prompt) + request.max_tokens
    if not request.prompt or request.max_tokens < 1:
        raise KvdoctorError("a request needs a prompt and at least one token to generate", "send both")
    if most > blocks * block_size:
        raise KvdoctorError(
            f"{most} tokens do not fit a pool of {blocks} blocks of {block_size}",
            "shorten the prompt or the output, or enlarge the pool",
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What one step computes for one request: `count` tokens from `start` on."""

    request: Request
    start: int
    count: int
    phase: Phase
    samples: bool
    """Whether the last of them yields a new token."""


@dataclass(frozen=True, slots=True)
class Load:
    """Blocks to fetch from a far tier into the pool."""

    request: Request
    blocks: tuple[int, ...]
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: what to load and to compute, and what was decided on the way."""

    work: tuple[Work, ...]
    loads: tuple[Load, ...]
    admitted: tuple[Request, ...]
    preempted: tuple[Request, ...]
    wait: Wait

    @property
    def tokens(self) -> int:
        """Tokens computed in the step."""
        return sum(work.count for work in self.work)


class Far(Protocol):
    """What the scheduler asks of the tiers beyond the pool."""

    def promise(self, hashes: Sequence[bytes]) -> int:
        """How many blocks of this prefix can be delivered; they are held until `load` or `forgo`."""

    def forgo(self, hashes: Sequence[bytes]) -> None:
        """Give up a promise."""
