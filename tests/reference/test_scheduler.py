"""Scheduling: chunks, hits, preemption, far hits; and thousands of random schedules that must all end well."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.blocks import BlockPool, block_hashes
from kvdoctor.reference.request import Phase, Plan, Request, Wait
from kvdoctor.reference.scheduler import Scheduler


def next_token(request: Request) -> int:
    """A model without arithmetic: the next token follows from all tokens before."""
    return sum(request.tokens) % 7


def advance(scheduler: Scheduler) -> tuple[Plan, list[Request]]:
    """One step with the model above."""
    plan = scheduler.step()
    tokens = {work.request.name: next_token(work.request) for work in plan.work if work.samples}
    return plan, scheduler.commit(plan, tokens)


def drained(scheduler: Scheduler, most: int = 5000) -> list[Plan]:
    """Run to the end."""
    plans = []
    while scheduler.busy:
        plans.append(advance(scheduler)[0])
        assert len(plans) < most, "no progress"
    return plans


def alone(request: Request) -> list[int]:
    """What the request must generate, whatever happens to it on the way."""
    twin = Request("twin", request.prompt, request.max_tokens, stop=request.stop)
    while True:
        twin.output.append(next_token(twin))
        if twin.output[-1] in twin.stop or len(twin.output) == twin.max_tokens:
            return twin.output


def test_a_long_prompt_is_computed_in_chunks_and_only_the_last_yields_a_token():
    scheduler = Scheduler(BlockPool(8, 4), max_num_seqs=1, max_num_batched_tokens=4)
    scheduler.add(Request("a", tuple(range(10)), 1))
    works = [plan.work[0] for plan in drained(scheduler)]
    assert [(work.start, work.count, work.samples) for work in works] == [
        (0, 4, False),
        (4, 4, False),
        (8, 2, True),
    ]
    assert {work.phase for work in works} == {Phase.PREFILL}


def test_decodes_go_on_while_another_prompt_is_prefilled():
    scheduler = Scheduler(BlockPool(32, 4), max_num_seqs=2, max_num_batched_tokens=4)
    scheduler.add(Request("a", (1, 2), 8))
    advance(scheduler)
    scheduler.add(Request("b", tuple(range(9)), 1))
    plan, _ = advance(scheduler)
    assert [(work.request.name, work.count, work.phase) for work in plan.work] == [
        ("a", 1, Phase.DECODE),
        ("b", 3, Phase.PREFILL),
    ]


def test_the_last_token_of_a_cached_prompt_is_computed_nevertheless():
    scheduler = Scheduler(BlockPool(8, 2))
    scheduler.add(Request("a", (1, 2, 3, 4), 1))
    drained(scheduler)
    again = Request("b", (1, 2, 3, 4), 1)
    scheduler.add(again)
    plan, _ = advance(scheduler)
    assert (plan.work[0].start, again.local_hits) == (2, 2)
    assert (scheduler.query_tokens, scheduler.hit_tokens) == (8, 2)


def test_a_full_pool_preempts_the_latest_and_it_ends_with_the_same_tokens():
    scheduler = Scheduler(BlockPool(4, 2), max_num_seqs=2, max_num_batched_tokens=8)
    requests = [Request("a", (1, 2), 6), Request("b", (3, 4), 6)]
    for request in requests:
        scheduler.add(request)
    plans = drained(scheduler)
    assert scheduler.preemptions >= 1
    assert requests[1].preemptions >= 1
    assert any(plan.wait is Wait.BLOCKS for plan in plans)
    assert [request.output for request in requests] == [alone(request) for request in requests]


def test_the_sequence_limit_is_named_as_the_reason_to_wait():
    scheduler = Scheduler(BlockPool(8, 2), max_num_seqs=1)
    for name in "ab":
        scheduler.add(Request(name, (1, 2), 2))
    assert scheduler.step().wait is Wait.SEQUENCES


def test_a_stop_token_ends_the_output():
    request = Request("a", (3,), 9, stop=frozenset({3}))
    scheduler = Scheduler(BlockPool(8, 2))
    scheduler.add(request)
    drained(scheduler)
    assert (request.output, request.reason) == ([3], "stop")


@pytest.mark.parametrize(("prompt", "most"), [((), 1), ((1,), 0), (tuple(range(10)), 7)])
def test_a_request_that_can_never_run_is_refused(prompt, most):
    with pytest.raises(KvdoctorError):
        Scheduler(BlockPool(8, 2)).add(Request("a", prompt, most))


def test_an_aborted_request_gives_everything_back():
    pool = BlockPool(8, 2)
    scheduler = Scheduler(pool)
    scheduler.add(Request("a", (1, 2, 3), 5))
    advance(scheduler)
    assert scheduler.abort("a").reason == "abort"
    assert (pool.free, scheduler.busy, scheduler.abort("a")) == (8, False, None)


class Shelf:
    """A far tier that holds some hashes."""

    def __init__(self, held: set[bytes]) -> None:
        self.held = held
        self.promises = 0

    def promise(self, hashes) -> int:
        count = 0
        while count < len(hashes) and hashes[count] in self.held:
            count += 1
        self.promises += count
        return count

    def forgo(self, hashes) -> None:
        self.promises -= len(hashes)


@pytest.mark.parametrize(("arrived", "start"), [(2, 4), (1, 2), (0, 0)])
def test_what_a_far_tier_does_not_deliver_is_computed(arrived, start):
    prompt = (1, 2, 3, 4, 5)
    far = Shelf(set(block_hashes(prompt, 2)))
    pool = BlockPool(8, 2)
    scheduler = Scheduler(pool, far=far)
    request = Request("a", prompt, 2)
    scheduler.add(request)
    plan, _ = advance(scheduler)
    assert ([len(load.blocks) for load in plan.loads], plan.work) == ([2], ())
    assert request.phase is Phase.LOADING
    scheduler.loaded(request, arrived)
    plan, _ = advance(scheduler)
    assert plan.work[0].start == start
    assert (request.promised, request.delivered) == (4, 2 * arrived)
    drained(scheduler)
    assert (pool.free, request.output) == (8, alone(request))


def test_a_parked_request_leaves_the_pool_and_comes_back():
    gone = []
    pool = BlockPool(8, 2, on_evict=lambda block, key: gone.append(key))
    scheduler = Scheduler(pool)
    request = Request("a", (1, 2, 3, 4), 4)
    scheduler.add(request)
    advance(scheduler)
    scheduler.park(request)
    assert (set(gone), pool.free) == (set(block_hashes((1, 2, 3, 4), 2)), 8)
    assert (request.preemptions, scheduler.preemptions) == (0, 0)
    drained(scheduler)
    assert request.output == alone(request)


REQUESTS = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=14), st.integers(1, 9), st.integers(0, 12)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=1500, deadline=None)
@given(
    wanted=REQUESTS,
    blocks=st.integers(12, 20),
    seqs=st.integers(1, 5),
    budget=st.integers(5, 12),
    caching=st.booleans(),
    abort_at=st.integers(0, 30),
)
def test_every_schedule_ends_with_the_right_tokens_and_an_empty_pool(
    wanted, blocks, seqs, budget, caching, abort_at
):
    pool = BlockPool(blocks, 2, caching=caching)
    scheduler = Scheduler(pool, max_num_seqs=seqs, max_num_batched_tokens=budget)
    requests = [Request(str(i), tuple(prompt), most) for i, (prompt, most, _) in enumerate(wanted)]
    arrivals = {i: at for i, (_, _, at) in enumerate(wanted)}
    computed: dict[int, tuple[int, ...]] = {}
    step = 0
    while scheduler.busy or arrivals:
        for i in [i for i, at in arrivals.items() if at <= step]:
            scheduler.add(requests[i])
            del arrivals[i]
        if step == abort_at:
            scheduler.abort("0")
        plan = scheduler.step()
        check_plan(scheduler, plan, budget, seqs)
        check_hits(plan, pool, computed)
        scheduler.commit(plan, {w.request.name: next_token(w.request) for w in plan.work if w.samples})
        check_pool(scheduler, pool)
        step += 1
        assert step < 3000, "no progress"
    assert pool.free == blocks
    for request in requests:
        if request.reason != "abort":
            assert request.output == alone(request)


def check_plan(scheduler: Scheduler, plan: Plan, budget: int, seqs: int) -> None:
    """A step stays inside its limits, and every token has a slot."""
    assert plan.tokens <= budget
    assert len(scheduler.running) <= seqs
    assert all(work.start == work.request.computed and work.count >= 1 for work in plan.work)
    for work in plan.work:
        assert len(work.request.table) * 2 >= work.start + work.count


def check_hits(plan: Plan, pool: BlockPool, computed: dict[int, tuple[int, ...]]) -> None:
    """Blocks taken over at admission hold just the tokens of the prompt; then note what this step computes."""
    for request in plan.admitted:
        for index in range(request.computed // 2):
            assert computed[request.table[index]] == tuple(request.tokens[: 2 * index + 2])
    for work in plan.work:
        for index in range(work.start // 2, (work.start + work.count) // 2):
            computed[work.request.table[index]] = tuple(work.request.tokens[: 2 * index + 2])


def check_pool(scheduler: Scheduler, pool: BlockPool) -> None:
    """References are exactly those of the tables."""
    held = Counter(b for r in (*scheduler.running, *scheduler.waiting) for b in r.table)
    assert [pool.references(block) for block in range(pool.blocks)] == [held[b] for b in range(pool.blocks)]
    assert pool.free == pool.blocks - len(held)


@settings(max_examples=500, deadline=None)
@given(prompts=st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=12), min_size=1, max_size=12))
def test_hit_tokens_equal_those_of_a_search_through_everything_computed(prompts):
    """One request at a time in a pool that evicts nothing: the oracle compares tokens, not hashes."""
    scheduler = Scheduler(BlockPool(400, 3))
    seen: set[tuple[int, ...]] = set()
    for number, tokens in enumerate(prompts):
        request = Request(str(number), tuple(tokens), 2)
        expected = 0
        while (expected + 1) * 3 < len(tokens) and tuple(tokens[: (expected + 1) * 3]) in seen:
            expected += 1
        scheduler.add(request)
        drained(scheduler)
        assert request.local_hits == 3 * expected
        stored = request.tokens[:-1]
        seen |= {tuple(stored[: end * 3]) for end in range(1, len(stored) // 3 + 1)}
