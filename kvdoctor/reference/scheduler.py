"""Continuous batching over a block pool: chunked prefill, prefix hits, preemption with recompute. No tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.blocks import BlockPool, block_hashes
from kvdoctor.reference.prefix import claim
from kvdoctor.reference.request import Far, Load, Phase, Plan, Request, Wait, Work, require_fit


class Scheduler:
    """Decides what each step computes; the engine carries it out and reports back with `commit`."""

    def __init__(
        self,
        pool: BlockPool,
        *,
        max_num_seqs: int = 32,
        max_num_batched_tokens: int = 512,
        far: Far | None = None,
    ) -> None:
        """`max_num_batched_tokens` bounds the tokens of a step, and so the chunk of a prefill."""
        if max_num_seqs < 1 or max_num_batched_tokens < max_num_seqs:
            raise KvdoctorError(
                f"a step of {max_num_batched_tokens} tokens cannot decode {max_num_seqs} sequences",
                "raise max_num_batched_tokens or lower max_num_seqs",
            )
        self.pool = pool
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.far = far
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.loading: dict[str, Load] = {}
        self.preemptions = 0
        self.query_tokens = 0
        self.hit_tokens = 0

    @property
    def busy(self) -> bool:
        """Whether any request is unfinished."""
        return bool(self.waiting or self.running or self.loading)

    def add(self, request: Request) -> None:
        """Queue a request that `check` lets pass."""
        self.check(request)
        self.waiting.append(request)

    def check(self, request: Request) -> None:
        """Raises KvdoctorError for a request that no empty pool could hold."""
        require_fit(request, self.pool.blocks, self.pool.block_size)

    def abort(self, name: str) -> Request | None:
        """End a request that waits or runs; None where there is none, or while its KV is still loading."""
        for request in (*self.running, *self.waiting):
            if request.name == name:
                self._leave(request)
                self._finish(request, "abort")
                return request
        return None

    def step(self) -> Plan:
        """Plan one step: the running first, in order of arrival, then as many waiting ones as fit."""
        budget = self.max_num_batched_tokens
        work: list[Work] = []
        preempted: list[Request] = []
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            count = min(request.missing, budget)
            if not self._grow(request, count, preempted):
                break
            work.append(self._work(request, count))
            budget -= count
            index += 1
        admitted: list[Request] = []
        loads: list[Load] = []
        wait = Wait.BLOCKS if preempted else self._admit(budget, work, admitted, loads)
        return Plan(tuple(work), tuple(loads), tuple(admitted), tuple(preempted), wait)

    def commit(self, plan: Plan, tokens: Mapping[str, int]) -> list[Request]:
        """Take in what a step computed, the new token by request name; returns the finished requests."""
        finished = []
        for work in plan.work:
            request = work.request
            if request.phase is Phase.FINISHED:
                continue
            request.computed += work.count
            if work.samples:
                request.phase = Phase.DECODE
                request.output.append(tokens[request.name])
            self._seal(request)
            if reason := self._reason(request):
                self._leave(request)
                self._finish(request, reason)
                finished.append(request)
        return finished

    def loaded(self, request: Request, blocks: int) -> None:
        """A load has ended: the first `blocks` of it have arrived, the rest will be recomputed."""
        load = self.loading.pop(request.name)
        size = self.pool.block_size
        first = request.computed // size
        request.delivered += blocks * size
        request.fetches = blocks == len(load.blocks)
        request.computed += blocks * size
        self.pool.release(request.table[first + blocks : first + len(load.blocks)])
        del request.table[first + blocks :]
        self._seal(request)
        request.phase = Phase.WAITING
        self.waiting.appendleft(request)

    def park(self, request: Request) -> None:
        """Take a running request's blocks out of the pool, into a far tier where there is one, and queue it again."""
        self.running.remove(request)
        table = list(request.table)
        self._reset(request)
        self.pool.evict(table)
        self.waiting.append(request)

    def _grow(self, request: Request, count: int, preempted: list[Request]) -> bool:
        """Make room for `count` more tokens, preempting the latest arrivals; False when it lost its own place."""
        while not self._extend(request, count):
            victim = self.running.pop()
            self._reset(victim)
            victim.preemptions += 1
            self.preemptions += 1
            self.waiting.appendleft(victim)
            preempted.append(victim)
            if victim is request:
                return False
        return True

    def _extend(self, request: Request, count: int) -> bool:
        """Allocate what `count` more tokens need."""
        size = self.pool.block_size
        needed = -(-(request.computed + count) // size) - len(request.table)
        if needed <= 0:
            return True
        blocks = self.pool.allocate(needed)
        if blocks is None:
            return False
        request.table += blocks
        return True

    def _admit(self, budget: int, work: list[Work], admitted: list[Request], loads: list[Load]) -> Wait:
        """Admit from the front of the queue, until something is short; says what."""
        while self.waiting:
            if len(self.running) + len(self.loading) >= self.max_num_seqs:
                return Wait.SEQUENCES
            if budget <= 0:
                return Wait.TOKENS
            request = self.waiting[0]
            load = None if request.table else claim(request, self.pool, self.far)
            if load:
                self.waiting.popleft()
                self.loading[request.name] = load
                loads.append(load)
                admitted.append(request)
                continue
            count = min(request.missing, budget)
            if not self._extend(request, count):
                return self._blocked(request)
            self.waiting.popleft()
            self.running.append(request)
            request.admissions += 1
            request.fetches = True
            admitted.append(request)
            work.append(self._work(request, count))
            budget -= count
        return Wait.NOTHING

    def _blocked(self, request: Request) -> Wait:
        """No block for the first of the queue: it gives up what it shares, so that others can end."""
        self._reset(request)
        if not self.running and not self.loading:
            for other in list(self.waiting)[1:]:
                self._reset(other)
        return Wait.BLOCKS

    def _work(self, request: Request, count: int) -> Work:
        """The work of one request, its phase made explicit."""
        if request.admissions == 1 and not request.output and request.phase is not Phase.PREFILL:
            request.local_hits = request.computed - request.delivered
            self.query_tokens += len(request.prompt)
            self.hit_tokens += request.computed
        is_decode = bool(request.output) and request.missing == 1
        request.phase = Phase.DECODE if is_decode else Phase.PREFILL
        return Work(request, request.computed, count, request.phase, count == request.missing)

    def _seal(self, request: Request) -> None:
        """Publish the blocks that have become full."""
        size = self.pool.block_size
        full = request.computed // size
        if full > request.sealed:
            request.hashes = block_hashes(request.tokens, size, request.salt, request.hashes)
            for index in range(request.sealed, full):
                self.pool.seal(request.table[index], request.hashes[index])
            request.sealed = full

    def _reason(self, request: Request) -> str:
        """Why a request is done, or nothing."""
        if request.output and request.output[-1] in request.stop:
            return "stop"
        return "length" if len(request.output) >= request.max_tokens else ""

    def _reset(self, request: Request) -> None:
        """Give back all blocks: the request starts over, its output kept."""
        self.pool.release(request.table)
        request.table = []
        request.computed = request.sealed = 0
        request.phase = Phase.WAITING

    def _leave(self, request: Request) -> None:
        """Take a request out of its queue."""
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)

    def _finish(self, request: Request, reason: str) -> None:
        """Release what a request holds; full blocks stay in the prefix cache."""
        self.pool.release(request.table)
        request.table = []
        request.phase = Phase.FINISHED
        request.reason = reason
