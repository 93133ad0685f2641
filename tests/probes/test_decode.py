"""The decode probe, small: what it builds, the line over layers, its refusals, and the JSON it answers with."""

from __future__ import annotations

import importlib.util

import pytest

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import cuda, decode, manners
from kvdoctor.probes.decode import SMALL, Options
from kvdoctor.probes.decode_plan import Work, fit, kv_layer_bytes, plan
from kvdoctor.reference.config import config_of
from kvdoctor.reference.sizes import layer_bytes, outer_bytes, weight_bytes

MIB = 2**20
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
TINY = {
    **SMALL,
    "hidden_size": 128,
    "num_hidden_layers": 9,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "vocab_size": 300,
}
SHAPE = config_of(TINY)
EACH = layer_bytes(SHAPE, 0)


def quiet(doing, share):
    """Say nothing."""


@pytest.fixture
def small(monkeypatch):
    """A machine without caches and with room."""
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": 0)
    monkeypatch.setattr(manners, "MARGIN", 0)


def test_a_model_that_fits_is_built_whole():
    assert plan(SHAPE, 0, room=2**30, cache=0) == Work((9,), weight_bytes(SHAPE))


def test_of_one_that_does_not_fit_three_equal_numbers_of_layers_are_built():
    room = outer_bytes(SHAPE) + 7 * EACH
    assert plan(SHAPE, 0, room=room, cache=0) == Work((2, 4, 6), outer_bytes(SHAPE) + 6 * EACH)


def test_room_for_less_than_three_layers_is_refused_with_the_sizes():
    with pytest.raises(Unavailable, match="three layers of this shape take"):
        plan(SHAPE, 0, room=outer_bytes(SHAPE) + 3 * EACH - 1, cache=0)


def test_kv_counts_as_much_as_weights():
    kv = kv_layer_bytes(SHAPE, 3, 17, "fp32")
    assert kv == 3 * 32 * 2 * 2 * 32 * 4
    assert plan(SHAPE, kv, room=2**30, cache=0).bytes == weight_bytes(SHAPE) + 9 * kv


@pytest.mark.parametrize("room", [2**30, outer_bytes(SHAPE) + 7 * EACH])
def test_a_step_that_runs_from_the_caches_is_refused(room):
    with pytest.raises(Unavailable, match="caches"):
        plan(SHAPE, 0, room=room, cache=64 * MIB)


def test_the_line_goes_through_two_points_and_the_third_checks_it():
    line = fit((2, 4, 6), (5.0, 9.0, 13.2))
    assert (line.seconds_outside, line.seconds_per_layer) == (1.0, 2.0)
    assert line.seconds(32) == 65.0
    assert line.miss == pytest.approx(0.2 / 13)


@pytest.mark.parametrize(
    ("third", "accepted"), [(13.38, True), (13.40, False), (12.62, True), (12.60, False)]
)
def test_a_third_point_more_than_3_percent_beside_the_line_is_refused(third, accepted):
    if accepted:
        fit((2, 4, 6), (5.0, 9.0, third))
    else:
        with pytest.raises(Unavailable, match="does not grow by the layer"):
            fit((2, 4, 6), (5.0, 9.0, third))


def test_layers_that_cost_nothing_are_refused():
    with pytest.raises(Unavailable):
        fit((2, 4, 6), (5.0, 5.0, 5.0))


@needs_torch
def test_the_answer_has_what_others_build_on(small):
    found = decode.run(Options(config=TINY, batch=2, context=50, device="cpu"), quiet)
    assert found["basis"] == "measured"
    assert found["tokens_per_s"] == pytest.approx(2 / found["step_seconds"])
    assert found["achieved_bytes_per_s"] == pytest.approx(found["bytes_per_step"] / found["step_seconds"])
    assert found["fraction"] == pytest.approx(found["achieved_bytes_per_s"] / found["plain_read_bytes_per_s"])
    assert len(found["step_repeats_seconds"][0]) >= decode.LEAST_ROUNDS
    assert [row["op"] for row in found["rows"]] == ["decode, 9 layers", "plain read"]
    assert found["conditions"]["block_table"] == "random permutation"
    assert found["kv_relative_error"] == 0


@needs_torch
def test_the_bytes_of_a_step_are_weights_without_embedding_and_the_context(small):
    found = decode.run(Options(config=TINY, batch=2, context=50, device="cpu"), quiet)
    kv = 2 * 50 * 9 * 2 * 2 * 32 * 4
    assert found["bytes_per_step"] == weight_bytes(SHAPE) - 300 * 128 * 4 + kv


@needs_torch
def test_from_a_few_layers_the_whole_is_told(small, monkeypatch):
    from kvdoctor.probes.decode_run import Bench

    times = {2: 0.5, 4: 0.9, 6: 1.3}
    monkeypatch.setattr(Bench, "step", lambda self: times[self.layers])
    monkeypatch.setattr(Bench, "read", lambda self: 1.0)
    size = outer_bytes(SHAPE) + 6 * (EACH + kv_layer_bytes(SHAPE, 1, 50, "fp32"))
    found = decode.run(Options(config=TINY, batch=1, context=50, size=size, device="cpu"), quiet)
    assert found["basis"] == "fit over layers"
    assert found["fit"]["layers"] == [2, 4, 6]
    assert found["step_seconds"] == pytest.approx(0.1 + 9 * 0.2)
    whole = weight_bytes(SHAPE) - 300 * 128 * 4 + 50 * 9 * 2 * 2 * 32 * 4
    assert found["bytes_per_step"] == whole


@needs_torch
@pytest.mark.parametrize(
    ("kv", "least", "most"), [("int8", 1e-3, 1e-2), ("int4", 2e-2, 0.15), ("fp8", 1e-2, 4e-2)]
)
def test_narrow_kv_tells_its_error(small, kv, least, most):
    found = decode.run(Options(config=TINY, context=50, kv_dtype=kv, device="cpu"), quiet)
    assert least < found["kv_relative_error"] < most


@needs_torch
def test_too_little_memory_is_a_sentence(small, monkeypatch):
    monkeypatch.setattr(manners, "available_memory", lambda root="/": MIB)
    with pytest.raises(Unavailable, match="may be taken here"):
        decode.run(Options(config=TINY, context=50, device="cpu"), quiet)


def test_the_footprint_is_what_is_built(small):
    cost = decode.footprint(Options(config=TINY, batch=1, context=50, device="cpu"))
    assert cost.host_bytes == weight_bytes(SHAPE) + 9 * kv_layer_bytes(SHAPE, 1, 50, "fp32")
    assert cost.device_bytes == 0


@pytest.mark.parametrize(
    ("device", "host", "card"), [("auto", True, True), ("cpu", True, False), ("cuda", False, True)]
)
def test_where_there_is_a_card_its_memory_is_counted_whatever_our_own_torch_can(
    small, monkeypatch, device, host, card
):
    """A probe may run under another Python than ours: the card is asked about by what is stated here."""
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    cost = decode.footprint(Options(config=TINY, batch=1, context=50, device=device))
    assert (cost.host_bytes > 0, cost.device_bytes > 0) == (host, card)


def test_an_unknown_kv_dtype_is_refused():
    with pytest.raises(KvdoctorError, match="no KV dtype"):
        decode.footprint(Options(config=TINY, kv_dtype="fp3", device="cpu"))
