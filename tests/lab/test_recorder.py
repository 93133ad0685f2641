"""What the engine core tells, and when: the semantics of vLLM's metrics."""

from __future__ import annotations

import pytest
from labs import BLOCK_BYTES, core, serve, updates

from kvdoctor.lab.messages import Standing
from kvdoctor.lab.settings import TierSetting

PROMPT = range(100)
OTHER = range(200, 300)
HOST = (TierSetting("host", 50),)


@pytest.fixture
def pooled():
    one = core(pool_blocks=40)
    yield one
    one.close()


@pytest.fixture
def tiered():
    """A pool that holds one prompt, and a tier for the rest."""
    one = core(pool_blocks=7, tiers=HOST)
    yield one
    one.close()


def test_each_token_is_told_once_and_the_last_with_the_reason(pooled):
    told = updates(serve(pooled, ("a", PROMPT, 4)), "a")
    assert [update.token for update in told] == [300] * 4
    assert [update.reason for update in told] == ["", "", "", "length"]


def test_sources_come_with_the_first_token_alone(pooled):
    told = updates(serve(pooled, ("a", PROMPT, 3)), "a")
    assert [update.sources is not None for update in told] == [True, False, False]
    assert (told[0].sources.computed, told[0].sources.local) == (100, 0)


def test_a_request_of_one_token_tells_sources_and_end_together(pooled):
    (told,) = updates(serve(pooled, ("a", PROMPT, 1)), "a")
    assert (told.reason, told.sources.computed) == ("length", 100)


def test_times_are_in_order(pooled):
    last = updates(serve(pooled, ("a", PROMPT, 3)), "a")[-1]
    assert last.queued <= last.scheduled <= last.first <= last.at


def test_a_second_prompt_hits_whole_blocks(pooled):
    serve(pooled, ("a", PROMPT, 1))
    reports = serve(pooled, ("b", PROMPT, 1))
    (admitted,) = [a for report in reports for a in report.admitted]
    assert (admitted.prompt, admitted.local_hits, admitted.outside_queries) == (100, 96, 0)
    assert updates(reports, "b")[0].sources.local == 96


def test_without_caching_nothing_is_looked_up():
    one = core(pool_blocks=40, caching=False)
    reports = serve(one, ("a", PROMPT, 1), ("b", PROMPT, 1))
    assert not [a for report in reports for a in report.admitted]
    assert updates(reports, "b")[0].sources.computed == 100


def test_hits_of_a_tier_are_promised_at_admission_and_delivered_at_the_first_token(tiered):
    serve(tiered, ("a", PROMPT, 1))
    serve(tiered, ("b", OTHER, 1))
    reports = serve(tiered, ("c", PROMPT, 1))
    (admitted,) = [a for report in reports for a in report.admitted]
    sources = updates(reports, "c")[0].sources
    assert admitted.promised == 96
    assert sources.outside == (("host", 96),)
    assert sources.computed + sources.local + 96 == 100


def test_a_load_is_told_as_one_move_with_its_pieces(tiered):
    serve(tiered, ("a", PROMPT, 1))
    serve(tiered, ("b", OTHER, 1))
    moves = [move for report in serve(tiered, ("c", PROMPT, 1)) for move in report.moves]
    (load,) = [move for move in moves if move.is_load]
    assert (load.kind, load.pieces, load.size) == ("host", 6, 6 * BLOCK_BYTES)
    assert [move for move in moves if not move.is_load]


def test_the_queue_ends_when_the_kv_is_there(tiered):
    serve(tiered, ("a", PROMPT, 1))
    serve(tiered, ("b", OTHER, 1))
    tiered.loader.handover_s = 0.05
    (told,) = updates(serve(tiered, ("c", PROMPT, 1)), "c")
    assert told.scheduled - told.queued >= 0.05


def test_a_request_whose_kv_is_on_its_way_is_deferred(tiered):
    serve(tiered, ("a", PROMPT, 1))
    serve(tiered, ("b", OTHER, 1))
    tiered.loader.handover_s = 0.05
    standing = [report.standing for report in serve(tiered, ("c", PROMPT, 1))]
    assert any(s.deferred == s.waiting == 1 and s.running == 0 for s in standing)
    assert standing[-1] == Standing(0, 0, 0, 0, 0.0)


def test_gauges_are_told_again_only_when_they_change(pooled):
    serve(pooled, ("a", PROMPT, 1))
    assert pooled.recorder.moment() is None
    assert pooled.recorder.step(pooled.engine.step()) is None


def test_preemptions_are_counted_and_told_at_the_end():
    one = core(pool_blocks=14)
    reports = serve(one, ("a", PROMPT, 60), ("b", OTHER, 60))
    assert sum(report.preemptions for report in reports) > 0
    assert updates(reports, "b")[-1].preemptions > 0
    assert len([u for u in updates(reports, "b") if u.token is not None]) == 60


def test_an_aborted_request_ends_without_a_token(pooled):
    from kvdoctor.reference.request import Request

    pooled.engine.add(Request("a", tuple(PROMPT), 50))
    pooled.recorder.step(pooled.engine.step())
    pooled.engine.abort("a")
    (told,) = updates([pooled.recorder.step(pooled.engine.step())], "a")
    assert (told.token, told.reason) == (None, "abort")
