"""Each slowness of the tiers does what it says."""

from __future__ import annotations

import time

from labs import BLOCK_BYTES, core, serve, updates

from kvdoctor.lab.settings import TierSetting
from kvdoctor.reference.request import Request

FIRST, SECOND = range(100), range(200, 300)


def promised_and_delivered(**settings):
    """Tokens promised and delivered over some rounds of prompts that take turns."""
    one = core(**settings)
    prompts = [range(1000 * n, 1000 * n + 100) for n in range(8)]
    reports = []
    for turn in range(40):
        reports += serve(one, (f"r{turn}", [*prompts[turn % 8], turn], 1))
    one.close()
    promised = sum(a.promised for report in reports for a in report.admitted)
    sources = [u.sources for report in reports for u in report.updates if u.sources]
    return promised, sum(count for found in sources for _, count in found.outside)


def test_a_limited_tier_takes_its_time_for_loads_and_not_for_stores():
    tier = TierSetting("host", 50, read_bytes_per_s=6 * BLOCK_BYTES / 0.1)
    one = core(pool_blocks=7, tiers=(tier,))
    began = time.monotonic()
    serve(one, ("a", FIRST, 1), ("b", SECOND, 1))
    stored = time.monotonic() - began
    moves = [move for report in serve(one, ("c", FIRST, 1)) for move in report.moves]
    one.close()
    (load,) = [move for move in moves if move.is_load]
    assert stored < 0.1 <= load.seconds * 1.01


def test_promises_that_hold_their_blocks_are_kept():
    promised, delivered = promised_and_delivered(pool_blocks=16, tiers=(TierSetting("host", 60),))
    assert promised == delivered > 0


def test_promises_that_do_not_are_broken_by_making_room_for_them():
    tiers = (TierSetting("host", 38),)
    promised, delivered = promised_and_delivered(pool_blocks=16, tiers=tiers, pin_promises=False)
    assert delivered < 0.8 * promised


def test_a_held_index_makes_look_ups_wait():
    one = core(pool_blocks=40, tiers=(TierSetting("host", 50),), index_held_s=0.05, index_free_s=0.001)
    time.sleep(0.01)
    reports = serve(one, ("a", FIRST, 1))
    one.close()
    (lookup,) = [seconds for report in reports for seconds in report.lookups]
    assert lookup > 0.005


def test_ranking_takes_its_time_in_every_step():
    one = core(pool_blocks=40, ranking_s=0.01)
    began = time.thread_time()
    reports = serve(one, ("a", FIRST, 5))
    assert time.thread_time() - began >= 5 * 0.01
    assert len(updates(reports, "a")) == 5


def test_a_parked_request_comes_back_and_ends():
    one = core(pool_blocks=40, tiers=(TierSetting("host", 50),))
    request = Request("a", tuple(FIRST), 20)
    one.engine.add(request)
    for _ in range(5):
        one.recorder.step(one.engine.step())
    one.engine.scheduler.park(request)
    reports = serve(one)
    one.close()
    assert [move.pieces for report in reports for move in report.moves if move.is_load] == [6]
    assert (len(request.output), request.reason) == (20, "length")


def test_the_remote_tier_is_a_process_that_ends_with_the_core():
    one = core(pool_blocks=7, tiers=(TierSetting("remote", 50),))
    serve(one, ("a", FIRST, 1), ("b", SECOND, 1))
    reports = serve(one, ("c", FIRST, 1))
    assert updates(reports, "c")[0].sources.outside == (("p2p", 96),)
    peer = one._peer._process
    one.close()
    assert peer.poll() is not None
