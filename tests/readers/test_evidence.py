"""A report's figures as readings: how they are named, which are left out, and what they are told apart by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.diagnose import diagnose
from kvdoctor.readers.evidence import evidence_recording
from kvdoctor.readers.figures import figures
from kvdoctor.readers.rows import normal, quantity_of


def rows(*told: tuple[str, str, object]) -> list[dict[str, object]]:
    """Rows of a report."""
    return [{"kind": kind, "name": name, "value": value} for kind, name, value in told]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("600.0 -> 2297.1 tok/s", [(600.0, "tokens/s"), (2297.1, "tokens/s")]),
        ("94-98%", [(0.94, "ratio"), (0.98, "ratio")]),
        ("0, 1/2, 2/3", [(0.0, ""), (0.5, ""), (pytest.approx(2 / 3), "")]),
        ("45+ s", [(45.0, "seconds")]),
        ("161.5s", [(161.5, "seconds")]),
        ("2.5 ms", [(0.0025, "seconds")]),
        ("1.8 TB/s", [(1.8e12, "bytes/s")]),
        ("24 GiB", [(24 * 2.0**30, "bytes")]),
        ("2K -> 35K tokens", [(2000.0, "tokens"), (35000.0, "tokens")]),
        ("126 (min 125, max 127)", [(126.0, "")]),
        ("40 then 56", [(40.0, ""), (56.0, "")]),
        ("not stated", []),
    ],
)
def test_numbers_are_read_as_people_write_them(text, read):
    assert [(f.value, f.kind) for f in figures(text)] == [
        (v if not isinstance(v, float) else pytest.approx(v), k) for v, k in read
    ]


def test_an_upper_bound_is_kept_as_one():
    assert figures("< 10 tok/s")[0].below


@pytest.mark.parametrize(
    ("name", "kind", "quantity"),
    [
        ("vllm:gpu_cache_usage_perc", "", m.KV_CACHE_USAGE),
        ("GPU KV cache usage", "ratio", m.KV_CACHE_USAGE),
        ("CPU KV cache usage", "ratio", None),
        ("token usage", "", m.KV_CACHE_USAGE),
        ("vllm:num_requests_waiting", "", m.WAITING),
        ("requests in queue", "", m.WAITING),
        ("queue_time with grammar", "seconds", lm.QUEUED),
        ("mean TTFT", "seconds", lm.TTFT),
        ("time_to_first_token_seconds_count", "", None),
        ("TPOT p50", "seconds", lm.ITL),
        ("GPU-Util", "ratio", lm.GPU_BUSY),
        ("GPU memory usage", "ratio", None),
        ("--max-num-seqs", "", lm.MAX_RUNNING),
        ("attention block size", "tokens", lm.BLOCK),
        ("memory bandwidth", "bytes/s", lm.REACHABLE),
        ("PCIe bandwidth", "bytes/s", None),
    ],
)
def test_a_name_and_a_unit_make_a_quantity(name, kind, quantity):
    assert quantity_of(normal(name), kind) is quantity


def test_two_figures_in_one_row_are_told_apart():
    (source,) = evidence_recording(rows(("log", "running / waiting", "8 / 3")), "r").sources
    assert {c.name: c.value[0] for c in source.columns} == {lm.raw(m.RUNNING): 8.0, lm.raw(m.WAITING): 3.0}


def test_a_state_that_a_change_has_cured_is_not_the_complaint():
    told = rows(
        ("log", "total time for write before", "1803 ms"), ("log", "total time for write after", "3 ms")
    )
    (source,) = evidence_recording(told, "r").sources
    assert [c.value[0] for c in source.columns] == [1.803]


# Reports in words of our own, a row just on either side of what decides.
REPORTS = [
    ("a full pool and a queue", [("metric", "KV cache usage", "99%"), ("metric", "running", 12),
     ("metric", "waiting", 80)], "capacity"),
    ("a queue and an empty pool", [("metric", "KV cache usage", "12%"), ("metric", "running", 64),
     ("metric", "waiting", 80), ("flag", "--max-num-seqs", 64)], "queueing"),
    ("a full pool and no queue", [("metric", "KV cache usage", "99%"), ("metric", "running", 12),
     ("metric", "waiting", 0), ("log", "generation throughput", "600 tok/s")], "healthy"),
    ("preemptions", [("metric", "vllm:num_preemptions_total", 120)], "capacity"),
    ("no preemptions", [("metric", "vllm:num_preemptions_total", 0)], "insufficient_evidence"),
    ("a hit slower than none", [("benchmark", "TTFT cold", "2 s"), ("benchmark", "TTFT, hit in SSD tier", "5 s")],
     "offload"),
    ("a hit faster than none", [("benchmark", "TTFT cold", "2 s"), ("benchmark", "TTFT, hit in SSD tier", "0.5 s")],
     "insufficient_evidence"),
    ("a busy core and a waiting GPU", [("process", "CPU usage", "100%"), ("nvml", "GPU utilisation", "35%"),
     ("workload", "concurrency", 64)], "host"),
    ("a busy core and a busy GPU", [("process", "CPU usage", "100%"), ("nvml", "GPU utilisation", "98%"),
     ("workload", "concurrency", 64)], "insufficient_evidence"),
    ("a busy core and nothing to do", [("process", "CPU usage", "100%"), ("nvml", "GPU utilisation", "0%")], "idle"),
    ("tokenizer in the profile", [("profile", "time in tokenizer", "70%")], "host"),
    ("collectives in the profile", [("profile", "all-reduce", "45%")], "network"),
    ("prefix shorter than a block", [("config", "attention block size", 1056), ("workload", "shared prefix", 900)],
     "hit_rate"),
    ("prefix longer than a block", [("config", "attention block size", 16), ("workload", "shared prefix", 900)],
     "insufficient_evidence"),
    ("a connector that costs", [("benchmark", "TTFT with LMCache", "6 s"), ("benchmark", "TTFT without LMCache",
     "2 s")], "offload"),
    ("a connector that pays", [("benchmark", "TTFT with LMCache", "1 s"), ("benchmark", "TTFT without LMCache",
     "4 s")], "insufficient_evidence"),
    ("graphs off", [("benchmark", "ITL with cuda graph", "10 ms"), ("benchmark", "ITL enforce eager", "45 ms")],
     "host"),
    ("slow transfers", [("metric", "KV transfer time", "1.4 s")], "network"),
    ("quick transfers", [("metric", "KV transfer time", "20 ms")], "insufficient_evidence"),
    ("memory at its rate", [("profile", "DRAM active", "82%")], "bandwidth"),
    ("a line of clients", [("benchmark", f"TTFT at concurrency {n}", f"{n * 100} ms") for n in (1, 10, 100)],
     "queueing"),
    ("a flat line", [("benchmark", f"TTFT at concurrency {n}", "3 s") for n in (1, 10, 100)],
     "insufficient_evidence"),
    ("SGLang's gauge at 0", [("metric", "sglang:cache_hit_rate", 0), ("workload", "same prompts", "yes")],
     "insufficient_evidence"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "named"), [r[1:] for r in REPORTS], ids=[r[0] for r in REPORTS])
def test_a_report_is_answered_by_what_it_supports(told, named):
    found = diagnose(evidence_recording(rows(*told), "r"))
    assert found.primary_name == named, found.summary
    assert found.confidence.value != "high"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["log", "metric", "profile", "benchmark", "flag", "x"]),
                "name": st.sampled_from([told[1] for _, report, _ in REPORTS for told in report]) | st.text(),
                "value": st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans()),
            }
        ),
        max_size=12,
    )
)
def test_a_report_of_anything_is_answered_without_breaking(told):
    assert diagnose(evidence_recording(told, "r")).primary_name
