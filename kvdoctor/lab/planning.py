"""A scheduler that ranks its requests in Python in each step, as a policy written without care does."""

from __future__ import annotations

import time

from kvdoctor.reference.blocks import BlockPool
from kvdoctor.reference.request import Plan
from kvdoctor.reference.scheduler import Scheduler


class RankingScheduler(Scheduler):
    """First come, first served, whatever the ranking says; `seconds` of CPU time go into it each step."""

    def __init__(
        self, pool: BlockPool, *, max_num_seqs: int, max_num_batched_tokens: int, seconds: float
    ) -> None:
        super().__init__(pool, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens)
        self.seconds = seconds

    def step(self) -> Plan:
        """Plan a step."""
        if self.seconds and (self.running or self.waiting):
            self.rank()
        return super().step()

    def rank(self) -> list[tuple[int, int]]:
        """Compare every request with every other, token by token, until the time is up."""
        requests = [*self.running, *self.waiting]
        end = time.thread_time() + self.seconds
        ranks: list[tuple[int, int]] = []
        while time.thread_time() < end:
            ranks = []
            for number, one in enumerate(requests):
                shared = sum(
                    a == b for other in requests for a, b in zip(one.prompt, other.prompt, strict=False)
                )
                ranks.append((shared, number))
            ranks.sort()
        return ranks
