"""The engine: plan a step, load, compute, commit, and say in numbers and events what happened."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvdoctor.reference.loader import Loader
from kvdoctor.reference.request import Phase, Plan, Request, Wait
from kvdoctor.reference.scheduler import Scheduler

# How long an idle step waits for a load before it looks for new requests again.
_PATIENCE_S = 0.01


class Kind(str, Enum):
    """What happened to a request."""

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    LOADED = "loaded"
    FIRST_TOKEN = "first_token"
    TOKEN = "token"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, at a monotonic time in seconds."""

    kind: Kind
    request: Request
    at: float
    token: int | None = None
    """The new token, for FIRST_TOKEN and TOKEN."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a model gives for a plan: new tokens by request name, and the bytes counted on the way."""

    tokens: Mapping[str, int]
    weight_bytes: int
    """Weights read, each once; experts only where a token chose them."""
    kv_bytes: int
    """KV read by the attention of all layers."""
    written_bytes: int
    """KV written."""


class Model(Protocol):
    """Computes the work of a plan."""

    def run(self, plan: Plan) -> Output:
        """The new tokens of all work that samples."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step. Without work or loads, `plan` is empty and the seconds are zero."""

    at: float
    """When it began, monotonic."""
    plan: Plan
    compute_seconds: float
    """Time in the model."""
    stall_seconds: float
    """Time that loads on the critical path took: all of it without prefetch."""
    weight_bytes: int
    kv_bytes: int
    written_bytes: int
    prefill_tokens: int
    decode_tokens: int
    waiting: int
    running: int
    loading: int
    events: tuple[Event, ...]

    @property
    def read_bytes(self) -> int:
        """Weights and KV read."""
        return self.weight_bytes + self.kv_bytes

    @property
    def bytes_per_s(self) -> float | None:
        """Achieved read rate of the computation; None where nothing was computed."""
        return self.read_bytes / self.compute_seconds if self.compute_seconds else None

    @property
    def wait(self) -> Wait:
        """Why the first waiting request still waits."""
        return self.plan.wait


class Engine:
    """One engine. `add` and `abort` may be called from other threads; `step` from one thread alone."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        *,
        loader: Loader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With a loader, the scheduler's far tiers become the loader's, and evicted blocks move there."""
        self.model = model
        self.scheduler = scheduler
        self.loader = loader
        self.clock = clock
        self._added: deque[tuple[Request, float]] = deque()
        self._aborted: deque[str] = deque()
        if loader:
            scheduler.far = loader.tiers
            scheduler.pool.on_evict = loader.evicted

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._added) or self.scheduler.busy

    def add(self, request: Request) -> None:
        """Queue a request. Raises KvdoctorError for one that can never run."""
        self.scheduler.check(request)
        self._added.append((request, self.clock()))

    def abort(self, name: str) -> None:
        """End a request before the next step (one that is loading: after its load)."""
        self._aborted.append(name)

    def step(self) -> StepResult:
        """Run one step."""
        events: list[Event] = []
        self._take_in(events)
        at = self.clock()
        self._collect(events)
        plan = self.scheduler.step()
        now = self.clock()
        events += [Event(Kind.PREEMPTED, request, now) for request in plan.preempted]
        events += [Event(Kind.SCHEDULED, request, now) for request in plan.admitted]
        stalled = self._load(plan)
        output, seconds = self._compute(plan)
        finished = self.scheduler.commit(plan, output.tokens)
        self._tell(plan, output, finished, events)
        decode = sum(work.count for work in plan.work if work.phase is Phase.DECODE)
        return StepResult(
            at,
            plan,
            seconds,
            stalled,
            output.weight_bytes,
            output.kv_bytes,
            output.written_bytes,
            plan.tokens - decode,
            decode,
            len(self.scheduler.waiting),
            len(self.scheduler.running),
            len(self.scheduler.loading),
            tuple(events),
        )

    def close(self) -> None:
        """Stop the loader and close the tiers."""
        if self.loader:
            self.loader.close()
            self.loader.tiers.close()

    def _take_in(self, events: list[Event]) -> None:
        """Queue what was added, end what was aborted."""
        while self._added:
            request, at = self._added.popleft()
            self.scheduler.add(request)
            events.append(Event(Kind.QUEUED, request, at))
        for name in [self._aborted.popleft() for _ in range(len(self._aborted))]:
            if gone := self.scheduler.abort(name):
                events.append(Event(Kind.FINISHED, gone, self.clock()))
            elif name in self.scheduler.loading:
                self._aborted.append(name)

    def _collect(self, events: list[Event]) -> None:
        """Hand arrived blocks to the scheduler."""
        if not self.loader:
            return
        for load, blocks in self.loader.finished():
            self.scheduler.loaded(load.request, blocks)
            events.append(Event(Kind.LOADED, load.request, self.clock()))

    def _load(self, plan: Plan) -> float:
        """Start the loads of a plan, and wait where there is nothing to compute. Returns the seconds it stood still."""
        if not self.loader:
            return 0.0
        before = self.loader.exposed_seconds
        for load in plan.loads:
            self.loader.start(load)
        if self.loader.flying and not plan.work:
            self.loader.wait(_PATIENCE_S)
        return self.loader.exposed_seconds - before

    def _compute(self, plan: Plan) -> tuple[Output, float]:
        """Run the model where there is work."""
        if not plan.work:
            return Output({}, 0, 0, 0), 0.0
        started = self.clock()
        output = self.model.run(plan)
        return output, self.clock() - started

    def _tell(self, plan: Plan, output: Output, finished: list[Request], events: list[Event]) -> None:
        """Tokens and ends, as events."""
        now = self.clock()
        for work in plan.work:
            if work.samples:
                kind = Kind.FIRST_TOKEN if len(work.request.output) == 1 else Kind.TOKEN
                events.append(Event(kind, work.request, now, output.tokens[work.request.name]))
        events += [Event(Kind.FINISHED, request, now) for request in finished]
