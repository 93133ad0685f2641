"""An engine, or one of its ranks, that stops in mid-window is stalled, however well it did before."""

from __future__ import annotations

import math

import pytest
from loads import case, case_of, endpoint, load
from otherpages import Served, tgi, trt
from readings import blank, judged, line

from kvdoctor.diagnose import diagnose
from kvdoctor.engines import lmdeploy, trtllm
from kvdoctor.engines.tgi import ENGINE
from kvdoctor.freeze import paused
from kvdoctor.halt import halted
from kvdoctor.health import overdue
from kvdoctor.model import Confidence, State

STOPPED = 15
"""The reading, and second, after which nothing moves."""


def stop(page, *, rank="0"):
    """Let the counters of a rank stand still from reading 15 of 31 on."""
    for column in page.columns:
        if dict(column.labels).get("engine") == rank and column.type != "gauge":
            kept = [i for i, reading in enumerate(column.index) if reading <= STOPPED]
            del column.index[len(kept) :], column.value[len(kept) :]
    return page


def rising(start, end, readings=31):
    """Nobody until a reading, then one more each second."""
    return [0.0 if i < start else min(end, i - start + 1.0) for i in range(readings)]


@pytest.mark.parametrize(
    ("numbers", "moving"),
    [
        pytest.param({"running": 4, "waiting": rising(STOPPED, 40)}, True, id="the queue grows"),
        pytest.param({"running": 4, "waiting": 3, "finished": 196}, False, id="gauges stand still too"),
    ],
)
def test_an_engine_that_stops_in_mid_window_is_found(numbers, moving):
    found = halted(case_of(stop(endpoint(**numbers))).timeline)
    assert found is not None
    assert (found.seconds, found.ranks, found.moving) == (15.0, (), moving)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(endpoint(running=4, waiting=rising(15, 40)), id="tokens keep coming"),
        pytest.param(stop(endpoint(running=[4.0] * 16 + [0.0] * 15, waiting=0)), id="the load ended"),
        pytest.param(stop(endpoint(running=[4.0] * 18 + [0.0] * 13, waiting=0)), id="pending for a moment only"),
        pytest.param(stop(endpoint(running=4, waiting=0, finished=240)), id="all that began ended: a stale gauge"),
        pytest.param(
            stop(endpoint(running=4, waiting=rising(15, 40), prefill_mean=9.0)), id="prefills as long as the silence"
        ),
    ],
)  # fmt: skip
def test_what_is_no_halt(page):
    assert halted(case_of(page).timeline) is None


def test_one_rank_that_stands_still_is_named_although_the_others_go_on():
    page = endpoint(ranks=({"running": 4}, {"running": 4, "waiting": rising(15, 40)}))
    found = halted(case_of(stop(page, rank="1")).timeline)
    assert found is not None
    assert (found.ranks, found.seconds) == (("1",), 15.0)


def test_a_halt_outweighs_the_health_of_the_time_before_it():
    recording = load(running=4, waiting=rising(STOPPED, 40))
    page = endpoint(running=4, waiting=rising(STOPPED, 40))
    recording.sources[0] = stop(page).source()
    found = diagnose(recording)
    assert (found.state, found.confidence) == (State.STALLED, Confidence.HIGH)
    assert found.summary == "Stalled: requests are pending and no token came in the last 15.0 s."


@pytest.mark.parametrize(
    ("numbers", "late"),
    [
        # 200 first tokens in 30 s: 40 waited two seconds before the end, and 200 / 15 came since.
        pytest.param({"waiting": [0.0] * 10 + [40.0] * 21}, 40 - 200 / 15, id="most of them cannot be through"),
        pytest.param({"waiting": [0.0] * 29 + [40.0] * 2}, 0, id="they came just now"),
        pytest.param({"waiting": 40}, 0, id="a gauge that never changes"),
        pytest.param({"waiting": [0.0] * 10 + [40.0] * 21, "preemptions": 3}, 0, id="the preempted wait again"),
    ],
)  # fmt: skip
def test_those_who_wait_longer_than_the_objective_are_counted(numbers, late):
    assert overdue(case(**numbers)) == pytest.approx(late)


def hold(page, start, end=99):
    """Let counters stand still from one reading to another, and go on from there."""
    for column in page.columns:
        if column.type != "gauge":
            missed = column.at(min(end - 1, page.readings - 1)) - column.at(start)
            kept = [
                (i, value - (missed if i >= end else 0.0))
                for i, value in zip(column.index, column.value, strict=True)
                if i <= start or i >= end
            ]
            column.index[:] = type(column.index)("I", [i for i, _ in kept])
            column.value[:] = type(column.value)("d", [value for _, value in kept])
    return page


def breathing(stop=99, readings=31):
    """Blocks that come and go until a reading."""
    return [0.3 + 0.01 * (min(i, stop) % 3) for i in range(readings)]


@pytest.mark.parametrize(
    ("served", "seconds"),
    [
        pytest.param(
            Served(usage=breathing(15), waiting=rising(15, 40), e2e=9.0), 15.0, id="blocks stand still"
        ),
        pytest.param(
            Served(usage=breathing(), waiting=0, e2e=0.2), None, id="blocks still come and go: long outputs"
        ),
        pytest.param(
            Served(usage=breathing(15), waiting=rising(15, 40), prefill=7.0), None, id="prefills as long"
        ),
        pytest.param(Served(usage=0.3, running=2, e2e=0.2), None, id="as many as ended last: stale gauges"),
        pytest.param(Served(usage=0.3, running=12, e2e=0.2), 15.0, id="more than ended last"),
    ],
)
def test_an_engine_that_counts_ends_only_shows_life_by_its_blocks(served, seconds):
    found = halted(line(hold(trt(served), STOPPED), trtllm.ENGINE))
    assert (found.seconds if found else None) == seconds


@pytest.mark.parametrize(
    ("page", "state"),
    [
        pytest.param(hold(endpoint(running=4, waiting=rising(8, 60)), 8, 24), State.STALLED, id="vllm"),
        pytest.param(hold(tgi(Served(waiting=rising(8, 60))), 8, 24), State.STALLED, id="tgi"),
        pytest.param(hold(endpoint(running=4), 8, 13), State.STALLED, id="five seconds"),
        pytest.param(hold(endpoint(running=4), 8, 12), State.HEALTHY, id="under five seconds"),
        pytest.param(
            hold(endpoint(running=[4.0] * 9 + [0.0] * 22), 8, 24), State.HEALTHY, id="nobody was there"
        ),
        pytest.param(
            hold(endpoint(running=4, seconds=120, readings=121), 8, 24),
            State.INSUFFICIENT,
            id="a small part of the window, and no health either",
        ),
        pytest.param(
            hold(endpoint(running=4, seconds=106, readings=107), 8, 24), State.STALLED, id="15% of the window"
        ),
    ],
)
def test_a_halt_that_ended_is_the_answer_to_a_window_it_fills(page, state):
    assert judged(page).state is state


def test_a_halt_that_ended_is_told_with_its_place():
    found = judged(hold(endpoint(running=4, waiting=rising(8, 60)), 8, 24))
    assert found.summary == (
        "Stalled for 16.0 s of 30.0 s, until 6.00 s before the end: requests were pending and no token came."
    )
    assert found.confidence is Confidence.HIGH


def often(page, *times):
    """Let counters stand still several times."""
    for start, end in times:
        hold(page, start, end)
    return page


FOUR_TIMES = ((2, 6), (9, 13), (16, 20), (23, 27))


def test_short_halts_that_recur_are_counted_together():
    found = judged(often(endpoint(running=4), *FOUR_TIMES))
    assert found.summary == (
        "Stalled 4 times, for 16.0 s of 30.0 s in all: requests were pending and no token came."
    )
    assert found.confidence is Confidence.MEDIUM


@pytest.mark.parametrize(
    ("page", "seconds"),
    [
        pytest.param(often(endpoint(running=4), (2, 6)), None, id="one of four seconds alone"),
        pytest.param(often(endpoint(running=4), (2, 4), (9, 11), (16, 18), (23, 25)), None, id="two seconds each"),
        pytest.param(
            often(endpoint(running=4, prefill_mean=2.5, computed_before=10_000), *FOUR_TIMES),
            None,
            id="prefills as long",
        ),
        pytest.param(
            often(endpoint(running=4, prefill_mean=2.5, computed_before=1e7), *FOUR_TIMES),
            16.0,
            id="prefills as long, of many more tokens",
        ),
        pytest.param(often(endpoint(running=0), *FOUR_TIMES), None, id="nobody was there"),
        pytest.param(endpoint(running=4, readings=9), None, id="readings four seconds apart"),
    ],
)  # fmt: skip
def test_which_halts_recur(page, seconds):
    found = paused(case_of(page).timeline)
    assert (found.seconds if found else None) == seconds


@pytest.mark.parametrize(("longer", "seconds"), [(1.9, 16.0), (2.1, None)])
def test_where_only_ends_are_counted_prompts_twice_as_long_as_before_may_be_the_halts(longer, seconds):
    page = often(tgi(Served(waiting=3)), *FOUR_TIMES)
    for column in page.columns:
        if column.name == "tgi_request_input_length_sum":
            gained = [value - column.value[0] for value in column.value]
            # 1,000 requests of 1,000 tokens before the window.
            column.value[:] = type(column.value)("d", [1e6 + longer * each for each in gained])
    found = paused(line(page, ENGINE))
    assert (found.seconds if found else None) == seconds


@pytest.mark.parametrize("every", [4, 6, 11, 13])
def test_a_counter_that_is_brought_up_to_date_every_few_seconds_is_no_halt(every):
    page = endpoint(running=4)
    for column in page.columns:
        if column.type != "gauge":
            kept = [i for i in column.index if i % every == 0]
            column.value[:] = type(column.value)("d", [column.value[i] for i in kept])
            column.index[:] = type(column.index)("I", kept)
    assert paused(case_of(page).timeline) is None
    assert judged(page).state is State.HEALTHY


def prompts(page, extra):
    """Let 60,000 prompt tokens more be counted at some readings."""
    for column in page.columns:
        if column.name == "vllm:prompt_tokens_total":
            more = [60_000 * sum(i >= at for at in extra) for i in column.index]
            column.value[:] = type(column.value)(
                "d", [a + b for a, b in zip(column.value, more, strict=True)]
            )
    return page


@pytest.mark.parametrize(
    ("at", "seconds"),
    [
        pytest.param((6, 13, 20, 27), None, id="long prompts end the halts: they are prefills"),
        pytest.param((7, 14, 21, 28), 16.0, id="long prompts at other times"),
    ],
)
def test_halts_that_end_with_long_prompts_are_prefills(at, seconds):
    found = paused(case_of(prompts(often(endpoint(running=4), *FOUR_TIMES), at)).timeline)
    assert (found.seconds if found else None) == seconds


def test_a_silence_before_a_very_long_prompt_is_its_prefill():
    page = hold(endpoint(running=4), 8, 24)
    for column in page.columns:
        if column.name == "vllm:prompt_tokens_total":
            column.value[:] = type(column.value)(
                "d", [v + 4e5 * (i >= 24) for i, v in zip(column.index, column.value, strict=True)]
            )
    assert paused(case_of(page).timeline) is None


def young(page):
    """Let all counters start from nothing in the window."""
    for column in page.columns:
        if column.type != "gauge":
            column.value[:] = type(column.value)("d", [v - column.value[0] for v in column.value])
    return page


def test_an_engine_without_a_past_is_held_against_its_other_silences():
    found = paused(case_of(young(hold(endpoint(running=4, waiting=rising(8, 60)), 8, 24))).timeline)
    assert found is not None
    assert found.seconds == 16.0


def test_silences_that_recur_in_an_engine_without_a_past_may_be_prefills():
    page = hold(hold(endpoint(running=4, waiting=rising(8, 60, 61), seconds=60, readings=61), 8, 24), 30, 40)
    assert paused(case_of(young(page)).timeline) is None


@pytest.mark.parametrize(("start", "seconds"), [(17, 13.0), (19, None)], ids=["over 12 s", "under"])
def test_gauges_of_the_last_ten_seconds_are_believed_once_they_were_read_anew(start, seconds):
    page = blank(model_name="m", engine="0")
    page.series("lmdeploy:num_requests_running", 4).series("lmdeploy:num_requests_waiting", rising(start, 40))
    page.counter("lmdeploy:generation_tokens_total", 4000, 1e5)
    found = halted(line(hold(page, start), lmdeploy.ENGINE))
    assert (found.seconds if found else None) == seconds


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(4.9, State.HEALTHY), (5.0, State.STALLED), (math.inf, State.HEALTHY)],
    ids=["for a moment", "five seconds", "no number"],
)
def test_an_address_that_answers_no_more_is_stalled(seconds, state):
    recording = load(running=4)
    source = recording.sources[0]
    source.unanswered(source.at[-1] + seconds, "nothing listens (connection refused)")
    assert diagnose(recording).state is state


@pytest.mark.parametrize(
    ("reason", "level"),
    [
        ("nothing listens (connection refused)", Confidence.HIGH),
        ("no whole answer within 5 s", Confidence.MEDIUM),
    ],
)
def test_an_address_that_answers_no_more_is_told_with_its_reason(reason, level):
    recording = load(running=4, readings=1, seconds=0)
    recording.sources[0].unanswered(recording.sources[0].at[-1] + 8, reason)
    found = diagnose(recording)
    assert found.summary == f"Stalled: it has not answered for the last 8.00 s: {reason}."
    assert found.confidence is level


def test_an_address_that_gives_no_page_any_more_is_not_well():
    recording = load(running=4)
    source = recording.sources[0]
    source.unanswered(source.at[-1] + 8, "it wants a key (HTTP 401)", answered=True)
    found = diagnose(recording)
    assert found.state is State.INSUFFICIENT
    assert "it gave no page for the last 8.00 s: it wants a key (HTTP 401)" in found.summary


@pytest.mark.parametrize(
    "note",
    [
        "",
        "[1]",
        '{"seconds": "x", "reason": "r", "answered": false}',
        '{"seconds": 1' + "0" * 400 + ', "reason": "r", "answered": false}',
        '{"seconds": 1e308, "reason": "r", "answered": false}',
        '{"seconds": 9, "reason": ["r"], "answered": false}',
        "[" * 200_000,
    ],
    ids=["empty", "list", "word", "400 digits", "huge", "no text", "deep"],
)
def test_a_note_that_no_recorder_wrote_says_nothing(note):
    recording = load(running=4)
    recording.sources[0].texts["unanswered"] = note
    assert diagnose(recording).state is State.HEALTHY


@pytest.mark.parametrize("every", [3])
def test_a_page_that_is_kept_for_seconds_is_no_halt_although_few_tokens_come(every):
    page = endpoint(running=4)
    for column in page.columns:
        if column.type != "gauge":
            # Twelve times as many tokens in every second one: chance, where few requests come.
            kept = [i for i in column.index if i % every == 0]
            values, total = [], column.at(0)
            for n, _ in enumerate(kept):
                total += 0.0 if n == 0 else (12.0 if n % 2 else 1.0)
                values.append(total)
            column.value[:] = type(column.value)("d", values)
            column.index[:] = type(column.index)("I", kept)
    assert paused(case_of(page).timeline) is None


def test_what_answers_again_is_not_gone():
    source = load(running=4).sources[0]
    source.unanswered(source.at[-1], "refused")
    assert not source.texts
