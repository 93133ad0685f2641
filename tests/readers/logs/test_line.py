"""Lines that engines and layers log: the numbers each says, whatever stands around it."""

from __future__ import annotations

import json

import pytest
from loglines import FORMS, source, stats, values

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m


def test_a_periodic_line_is_a_reading_with_its_time_and_its_line(tmp_path):
    found = source(tmp_path, "a banner\n" + stats(27) + "noise\n" + stats(37, run=3, usage=11.7))
    assert found.kind == "log"
    assert list(found.at) == [0.0, 10.0]
    assert values(found, m.RUNNING) == [1.0, 3.0]
    assert values(found, m.KV_CACHE_USAGE) == pytest.approx([0.05, 0.117])
    assert next(list(c.value) for c in found.columns if c.name == lm.LINE) == [2.0, 4.0]


@pytest.mark.parametrize(("text", "said"), [f[1:] for f in FORMS], ids=[f[0] for f in FORMS])
def test_a_line_says_its_numbers_in_base_units(tmp_path, text, said):
    found = source(tmp_path, text + "\n")
    for quantity, value in said.items():
        assert values(found, quantity) == [pytest.approx(value)], quantity.name


def test_a_transport_that_keeps_bulk_data_off_tcp_is_not_called_tcp(tmp_path):
    text = "ucp_context_0 inter-node cfg#2 rma(rc_mlx5/mlx5_0:1) am(tcp/eth0)\nget zcopy disabled\n"
    assert values(source(tmp_path, text), lm.TCP) == []


PREFIXES = [
    (
        "docker",
        lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-07-18T09:00:01Z"}),
    ),
    ("kubernetes", lambda line: "2025-07-18T09:00:01.123456789Z stdout F " + line),
    ("compose", lambda line: "vllm-1  | " + line),
    ("colours", lambda line: line.replace("Engine 000:", "\x1b[36mEngine 000:\x1b[0m")),
    ("process", lambda line: "\x1b[1m(APIServer pid=1)\x1b[0m " + line),
]


@pytest.mark.parametrize("wrap", [p[1] for p in PREFIXES], ids=[p[0] for p in PREFIXES])
def test_what_stands_around_a_line_does_not_matter(tmp_path, wrap):
    text = "\n".join(wrap(stats(s, run=s).rstrip()) for s in (1, 11)) + "\n"
    found = source(tmp_path, text)
    assert values(found, m.RUNNING) == [1.0, 11.0]
    assert found.at[-1] == pytest.approx(0.0 if wrap is PREFIXES[1][1] else 10.0)


def test_iteration_statistics_in_one_json_array_are_read_one_by_one(tmp_path):
    one = {"iter": 1, "iterLatencyMS": 25.0, "numActiveRequests": 8, "numQueuedRequests": 40,
           "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 995},
           "inflightBatchingStats": {"numPausedRequests": 2}}  # fmt: skip
    found = source(tmp_path, json.dumps([one, one]), "trt.stats.json")
    assert values(found, lm.STEP) == [0.025, 0.025]
    assert values(found, m.KV_CACHE_USAGE) == [0.995, 0.995]
