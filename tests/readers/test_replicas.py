"""Which labels tell replicas apart, and which only say by whom a series was scraped."""

from __future__ import annotations

import pytest

from kvdoctor.readers.replicas import Replicas

RUNNING = "vllm:num_requests_running"


def sources(*told: dict[str, str]):
    """Sources of one series each, read at 1 and 2, and half a second later by the next."""
    replicas = Replicas()
    for number, labels in enumerate(told):
        samples = [[1 + number / 2, "3"], [2 + number / 2, "4"]]
        replicas.add({"__name__": RUNNING, "engine": "0", **labels}, samples)
    return replicas.sources(0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pod": "a"}, {"pod": "b"}),
        ({"instance": "h:1", "job": "x"}, {"instance": "h:2", "job": "x"}),
        ({"kubernetes_pod_name": "a"}, {"kubernetes_pod_name": "b"}),
        ({"service_instance_id": "a"}, {"service_instance_id": "b"}),
        ({"job": "a"}, {"job": "b"}),
        ({"instance": "f:9090", "exported_instance": "a"}, {"instance": "f:9090", "exported_instance": "b"}),
        ({"cluster": "a", "pod": "p"}, {"cluster": "b", "pod": "p"}),
    ],
)  # fmt: skip
def test_replicas_are_told_apart_by_what_there_is(one, other):
    found = sources(one, other)
    assert len(found) == 2
    assert len({source.name for source in found}) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"job": "again"},
        {"job": "x", "endpoint": "metrics", "service": "llm", "container": "vllm"},
        {"job": "x", "replica": "prometheus-1"},
        {"job": "x", "prometheus_replica": "prometheus-1"},
    ],
)
def test_an_engine_that_is_scraped_twice_is_one(other):
    place = {"pod": "a", "instance": "10.0.0.1:8000"}
    (source,) = sources({**place, "job": "x"}, {**place, **other})
    (column,) = source.columns
    assert dict(column.labels) == {"engine": "0"}
    assert list(source.at) == [1.0, 1.5, 2.0, 2.5]
    assert (list(column.index), list(column.value)) == ([0, 2], [3.0, 4.0])


def test_of_two_samples_at_one_moment_one_is_kept():
    replicas = Replicas()
    for value in ("3", "5"):
        replicas.add({"__name__": RUNNING, "instance": "a"}, [[1, value], [2, "6"]])
    (source,) = replicas.sources(0.0)
    assert (list(source.columns[0].index), list(source.columns[0].value)) == ([0, 1], [5.0, 6.0])
