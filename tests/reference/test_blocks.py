"""The block pool: sharing without copies, LRU eviction, and what must never happen, under random use."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.blocks import BlockPool, block_hashes


def filled(pool: BlockPool, tokens: list[int], salt: str = "") -> list[int]:
    """Blocks of a sequence, computed and published."""
    hashes = block_hashes(tokens, pool.block_size, salt)
    blocks = pool.allocate(len(hashes))
    assert blocks is not None
    for block, key in zip(blocks, hashes, strict=True):
        pool.seal(block, key)
    return blocks


def test_a_prefix_that_was_computed_is_found_and_shared():
    pool = BlockPool(8, 2)
    first = filled(pool, [1, 2, 3, 4])
    found = pool.match(block_hashes([1, 2, 3, 4, 5, 6], 2))
    pool.share(found)
    assert found == first
    assert [pool.references(block) for block in found] == [2, 2]


def test_one_other_token_at_the_front_changes_every_hash():
    assert not set(block_hashes([1, 2, 3, 4], 2)) & set(block_hashes([9, 2, 3, 4], 2))


def test_salts_keep_requests_apart():
    pool = BlockPool(4, 2)
    filled(pool, [1, 2], salt="a")
    assert pool.match(block_hashes([1, 2], 2, "b")) == []
    assert len(pool.match(block_hashes([1, 2], 2, "a"))) == 1


def test_token_ids_count_and_not_their_digits():
    assert block_hashes([1, 23], 2) != block_hashes([12, 3], 2)


def test_a_growing_sequence_hashes_only_what_is_new():
    short = block_hashes([1, 2, 3, 4], 2)
    assert block_hashes([1, 2, 3, 4, 5, 6], 2, known=short) == block_hashes([1, 2, 3, 4, 5, 6], 2)


def test_a_partial_block_has_no_hash():
    assert len(block_hashes([1, 2, 3], 2)) == 1


def test_the_least_recently_used_block_goes_first_and_the_tail_of_a_chain_before_its_head():
    gone = []
    pool = BlockPool(4, 1, on_evict=lambda block, key: gone.append(block))
    old, new = filled(pool, [1, 2]), filled(pool, [3, 4])
    pool.release(old)
    pool.release(new)
    pool.allocate(3)
    assert gone == [old[1], old[0], new[1]]
    assert pool.evictions == 3


def test_a_block_with_unknown_content_is_taken_before_a_cached_one():
    pool = BlockPool(2, 1)
    cached, empty = filled(pool, [1]), pool.allocate(1)
    pool.release(cached)
    pool.release(empty)
    assert pool.allocate(1) == empty
    assert pool.match(block_hashes([1], 1)) == cached


def test_too_large_a_wish_changes_nothing():
    pool = BlockPool(3, 1)
    pool.allocate(2)
    assert pool.allocate(2) is None
    assert pool.free == 1


def test_equal_content_twice_survives_the_loss_of_one():
    pool = BlockPool(2, 1)
    one, other = filled(pool, [7]), filled(pool, [7])
    pool.release(one)
    pool.allocate(1)
    assert pool.match(block_hashes([7], 1)) == other
    assert pool.evictions == 0


def test_without_caching_nothing_is_found():
    pool = BlockPool(2, 1, caching=False)
    filled(pool, [7])
    assert pool.match(block_hashes([7], 1)) == []


def test_a_second_release_is_refused():
    pool = BlockPool(2, 1)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(KvdoctorError, match="twice"):
        pool.release(blocks)


def test_a_free_block_cannot_be_published():
    with pytest.raises(KvdoctorError, match="while free"):
        BlockPool(2, 1).seal(0, b"x")


class Use(RuleBasedStateMachine):
    """Tables come and go; a shadow of contents and references says what the pool must know."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[int, tuple[int, ...]] = {}
        self.tables: list[list[int]] = []
        self.pool = BlockPool(10, 2, on_evict=self.evicted)

    def evicted(self, block: int, key: bytes) -> None:
        assert not any(block in table for table in self.tables), "evicted while referenced"
        assert block_hashes(self.contents[block], 2)[-1] == key

    @rule(tokens=st.lists(st.integers(0, 1), min_size=2, max_size=10))
    def run(self, tokens: list[int]) -> None:
        hashes = block_hashes(tokens, 2)
        found = self.pool.match(hashes)
        known = set(self.contents.values())
        oracle = 0
        while oracle < len(hashes) and tuple(tokens[: 2 * oracle + 2]) in known:
            oracle += 1
        assert len(found) == oracle
        self.pool.share(found)
        table = list(found)
        self.tables.append(table)
        fresh = self.pool.allocate(len(hashes) - len(found))
        if fresh is None:
            self.tables.remove(table)
            self.pool.release(table)
            return
        for block in fresh:
            self.contents.pop(block, None)
        table += fresh
        for index in range(len(found), len(table)):
            self.pool.seal(table[index], hashes[index])
            self.contents[table[index]] = tuple(tokens[: 2 * index + 2])

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.release(table)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def end_and_evict(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.release(table)
        self.pool.evict(table)
        for block in table:
            if not self.pool.references(block):
                self.contents.pop(block, None)

    @invariant()
    def every_reference_has_a_table_and_no_block_is_lost(self) -> None:
        held = Counter(block for table in self.tables for block in table)
        assert [self.pool.references(block) for block in range(10)] == [held[block] for block in range(10)]
        assert self.pool.free == 10 - len(held)


Use.TestCase.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
TestUse = Use.TestCase
