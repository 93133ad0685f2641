"""The JSON contract: every sample is valid, every enumeration is the model's, no number is outside JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from attacks import ATTACKS, hostile
from diagnoses import SAMPLES
from diagnosis_capacity import CAPACITY
from diagnosis_states import HEALTHY

from kvdoctor.model import FAMILY, SUBCLASSES, Basis, Bound, Confidence, Cost, Metric, State, Verdict
from kvdoctor.render.json import render, to_dict
from kvdoctor.service import Quantile

SCHEMA: dict[str, Any] = json.loads(files("kvdoctor").joinpath("schema/diagnosis-1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
BOUNDS = [bound.value for bound in Bound]
STATES = [state.value for state in State]


def values(enumeration: Any) -> list[str]:
    """Return the values of an enumeration."""
    return [item.value for item in enumeration]


def faults(answer: Any) -> list[str]:
    """Return what the schema has against an answer."""
    return [error.message for error in VALIDATOR.iter_errors(answer)]


def test_the_schema_itself_is_valid() -> None:
    meta = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
    assert list(meta.iter_errors(SCHEMA)) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_meets_the_schema(name: str) -> None:
    assert faults(json.loads(render(SAMPLES[name]))) == []


@pytest.mark.parametrize("name", [n for n in ATTACKS if n != "unicode"])
def test_outside_text_is_kept_whole_and_the_bytes_stay_plain_ascii(name: str) -> None:
    text = render(hostile(name))
    assert json.loads(text)["targets"][0]["model"] == ATTACKS[name]
    assert text.isascii()
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_contracts_keys_come_first_and_in_its_order() -> None:
    contract = """schema_version kvdoctor targets window objective state primary family subclass
        primary_by_metric subclass_by_metric paced_by contributing confidence confidence_reasons summary
        sentences next_measurement quantiles ledger findings gaps header roofline sums notes cost"""
    assert list(to_dict(CAPACITY)) == contract.split()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("$defs", "bound", "enum"), BOUNDS),
        (("$defs", "basis", "enum"), values(Basis)),
        (("$defs", "metric", "enum"), values(Metric)),
        (("$defs", "finding", "properties", "verdict", "enum"), values(Verdict)),
        (("$defs", "named_state", "enum"), [s for s in STATES if s != "bound"]),
        (("properties", "state", "enum"), STATES),
        (("properties", "primary", "enum"), BOUNDS + [s for s in STATES if s != "bound"]),
        (("properties", "confidence", "enum"), values(Confidence)),
        (("properties", "family", "enum"), [*dict.fromkeys(FAMILY.values()), None]),
        (("$defs", "subclass", "enum"), [*dict.fromkeys(s for b in Bound for s in SUBCLASSES[b]), None]),
    ],
)
def test_the_schemas_enumerations_are_the_models(path: tuple[str, ...], expected: list[str]) -> None:
    node: Any = SCHEMA
    for key in path:
        node = node[key]
    assert node == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("primary", "weather"),
        ("primary", "healthy"),
        ("subclass", "slow_link"),
        ("family", "network"),
        ("confidence", "certain"),
        ("state", "idle"),
        ("schema_version", 2),
        ("subclass_by_metric", {"ttft": "slow_link", "itl": "preemption"}),
    ],
)
def test_the_schema_refuses_what_the_contract_does_not_allow(key: str, value: Any) -> None:
    answer = json.loads(render(CAPACITY)) | {key: value}
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(answer)


@pytest.mark.parametrize("bound", list(Bound))
def test_every_bound_takes_its_own_subclasses_and_no_others(bound: Bound) -> None:
    finding = json.loads(render(CAPACITY))["findings"][0] | {"bound": bound.value}
    check = VALIDATOR.evolve(schema={"$defs": SCHEMA["$defs"], "$ref": "#/$defs/finding"})
    every = {s for b in Bound for s in SUBCLASSES[b]}
    for subclass in every:
        assert check.is_valid(finding | {"subclass": subclass}) == (subclass in SUBCLASSES[bound])


def test_an_added_property_does_not_break_a_reader() -> None:
    assert faults(json.loads(render(CAPACITY)) | {"a_later_key": 1}) == []


def test_what_is_infinite_or_undefined_is_null() -> None:
    broken = dataclasses.replace(
        HEALTHY,
        quantiles={"ttft": {"p99": Quantile(7.5, math.inf)}},
        cost=Cost(0.1, 10, 0.01),
        header=(dataclasses.replace(HEALTHY.header[0], now=math.nan, lifetime=-math.inf),),
    )
    answer = json.loads(render(broken), parse_constant=pytest.fail)
    assert answer["quantiles"]["ttft"]["p99"] == {"low": 7.5, "high": None}
    assert answer["header"][0]["now"] is None
    assert answer["header"][0]["lifetime"] is None


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_without_a_parent_sum_to_the_whole(name: str) -> None:
    for ledger in json.loads(render(SAMPLES[name]))["ledger"].values():
        top = [part["seconds"] for part in ledger["parts"] if "parent" not in part]
        assert math.isclose(sum(top), ledger["seconds"], rel_tol=1e-9)


def test_the_last_bits_of_a_sum_do_not_reach_the_bytes() -> None:
    one, other = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)
    assert one != other
    texts = {render(dataclasses.replace(HEALTHY, cost=Cost(cpu, 1, 0.0))) for cpu in (one, other)}
    assert len(texts) == 1


def test_an_unnamed_pid_and_url_are_left_out_and_a_state_is_its_own_primary() -> None:
    answer = to_dict(SAMPLES["idle"])
    assert answer["primary"] == answer["state"] == "idle"
    assert "pid" not in json.loads(render(CAPACITY))["targets"][0]
