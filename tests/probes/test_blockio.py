"""Blocks that are read in every order, each known by its stamp."""

from __future__ import annotations

import os

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.blockio import PAGE, File, shuffled

SIZE, BLOCK = 64 * PAGE, 4 * PAGE


@pytest.fixture
def file():
    fd = os.memfd_create("blockio")
    made = File(fd, SIZE, 77, os.urandom(BLOCK))
    made.fill(BLOCK)
    yield made
    os.close(fd)


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_every_block_is_read_once_at_any_depth(file, depth):
    done = file.read(shuffled(SIZE, BLOCK, 1), BLOCK, depth, 10.0)
    assert (done.bytes, len(done.block_s)) == (SIZE, SIZE // BLOCK)
    assert done.seconds > 0


def test_a_block_that_is_another_is_seen(file):
    os.pwrite(file.fd, b"\0" * 16, 3 * BLOCK)
    with pytest.raises(KvdoctorError, match=f"the block at {3 * BLOCK} is not what was written"):
        file.read(shuffled(SIZE, BLOCK, 1), BLOCK, 4, 10.0)


def test_a_file_that_ends_early_is_seen(file):
    os.truncate(file.fd, SIZE - PAGE)
    with pytest.raises(KvdoctorError, match="gave or took"):
        file.read([SIZE - BLOCK], BLOCK, 1, 10.0)


def test_blocks_that_are_written_over_can_still_be_read(file):
    assert file.write(shuffled(SIZE, BLOCK, 2), BLOCK, 4, 10.0).bytes == SIZE
    assert file.read(shuffled(SIZE, BLOCK, 3), BLOCK, 4, 10.0).bytes == SIZE


def test_no_time_moves_nothing(file):
    assert file.read(shuffled(SIZE, BLOCK, 1), BLOCK, 2, 0.0).bytes == 0


def test_an_order_of_chance_has_every_whole_block_once_and_not_in_order():
    order = shuffled(100 * BLOCK + 5, BLOCK, 1)
    assert sorted(order) == list(range(0, 100 * BLOCK, BLOCK))
    assert order != sorted(order)
