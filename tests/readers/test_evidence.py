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


@pytest.mark.parametrize(
    ("name", "value", "whole"),
    [
        ("TTFT without / with offload", "1 s / 2 s", ["TTFT without offload", "TTFT with offload"]),
        (
            "wall time with offload / without",
            "1 s / 2 s",
            ["wall time with offload", "wall time without offload"],
        ),
        ("ITL, 8 / 16 output tokens", "1 ms / 2 ms", ["ITL, 8 output tokens", "ITL, 16 output tokens"]),
        (
            "TTFT, 9k prompt, turn 1 / turn 2",
            "1 s / 2 s",
            ["TTFT, 9k prompt, turn 1", "TTFT, 9k prompt, turn 2"],
        ),
        ("TTFT cold / warm", "1 s / 2 s", ["TTFT cold", "TTFT warm"]),
        ("wall time, caching on / off", "1 s / 2 s", ["wall time, caching on", "wall time, caching off"]),
        ("store A, first / second run", "1 s / 2 s", ["store A, first run", "store A, second run"]),
        ("prompt / generation throughput", "5 / 6", ["prompt throughput", "generation throughput"]),
        ("running / waiting", "5 / 6", ["running", "waiting"]),
        ("TTFT / hit rate", "1 s / 0.5", ["TTFT", "hit rate"]),
    ],
)
def test_each_figure_of_a_row_has_its_whole_name(name, value, whole):
    (source,) = evidence_recording(rows(("benchmark", name, value)), "r").sources
    assert [dict(c.labels)["as"] for c in source.columns] == whole


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("TTFT at concurrency 8", ("load", "8")),
        ("TTFT at request rate 0.5", ("load", "0.5")),
        ("TTFT at 12 qps", ("load", "12")),
        ("TTFT, prompt length 4000", ("length", "4000")),
        ("TTFT, 32k context", ("length", "32000")),
        ("TTFT, input tokens 2000-4000", ("length", "4000")),
        ("TTFT, 128 output tokens", None),
    ],
)
def test_a_name_tells_the_load_and_the_length_of_the_prompt(name, told):
    (source,) = evidence_recording(rows(("benchmark", name, "2 s")), "r").sources
    labels = [pair for pair in source.columns[0].labels if pair[0] in ("load", "length")]
    assert labels == ([told] if told else [])


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
    ("a line of arrivals", [("benchmark", f"TTFT at request rate {n}", f"{n * n * 100} ms") for n in (1, 4, 16)],
     "queueing"),
    ("longer prompts", [("benchmark", f"TTFT, {n}k prompt", f"{n * 0.4} s") for n in (2, 8, 32)], "compute"),
    ("longer prompts that hit", [("benchmark", f"TTFT of a hit, {n}k prompt", f"{n * 0.4} s") for n in (2, 8, 32)],
     "insufficient_evidence"),
    ("longer prompts, hardly slower", [("benchmark", f"TTFT, {n}k prompt", f"{3 + n * 0.01} s") for n in (2, 8, 32)],
     "insufficient_evidence"),
    ("longer contexts", [("benchmark", f"decode rate at {n}k context", f"{60 - n} tok/s") for n in (2, 16, 40)],
     "bandwidth"),
    ("longer contexts, as quick", [("benchmark", f"decode rate at {n}k context", "60 tok/s") for n in (2, 16, 40)],
     "insufficient_evidence"),
    ("longer contexts and drafts", [("benchmark", f"decode rate at {n}k context", f"{60 - n} tok/s")
     for n in (2, 16, 40)] + [("log", "draft tokens accepted", 2.1)], "bandwidth"),
    ("two contexts are no course", [("benchmark", f"decode rate at {n}k context", f"{60 - n} tok/s")
     for n in (2, 40)], "insufficient_evidence"),
    ("more cards are slower", [("benchmark", "decode rate, TP=1 / TP=4", "44 tok/s / 31 tok/s")], "network"),
    ("more cards are quicker", [("benchmark", "decode rate, TP=1 / TP=4", "31 tok/s / 80 tok/s")],
     "insufficient_evidence"),
    ("TTFT jumps and tokens do not", [("benchmark", "mean TTFT, light / heavy traffic", "0.2 s / 30 s"),
     ("benchmark", "mean TPOT, light / heavy traffic", "21 ms / 22 ms")], "queueing"),
    ("TTFT jumps and so do tokens", [("benchmark", "mean TTFT, light / heavy traffic", "0.2 s / 30 s"),
     ("benchmark", "mean TPOT, light / heavy traffic", "21 ms / 95 ms")], "insufficient_evidence"),
    ("more arrives than is served", [("workload", "request rate", "12 req/s"), ("benchmark", "request throughput",
     "5 req/s"), ("benchmark", "TTFT", "40 s")], "queueing"),
    ("more could arrive than is served, of few clients", [("workload", "request rate", "12 req/s"), ("workload",
     "max concurrency", 16), ("benchmark", "request throughput", "5 req/s"), ("benchmark", "TTFT", "40 s")],
     "insufficient_evidence"),
    ("what arrives is served", [("workload", "request rate", "12 req/s"), ("benchmark", "request throughput",
     "12 req/s"), ("benchmark", "TTFT", "40 s")], "insufficient_evidence"),
    ("more clients than may run", [("workload", "clients", 40), ("flag", "--max-num-seqs", 8)], "queueing"),
    ("more clients than may run, a full pool", [("workload", "clients", 40), ("flag", "--max-num-seqs", 8),
     ("metric", "running", 3), ("metric", "waiting", 37), ("metric", "KV cache usage", "98%")], "capacity"),
    ("a repeat as slow", [("workload", "same prompt sent", "twice"), ("benchmark", "TTFT, turn 1 / turn 2",
     "4.1 s / 4.0 s")], "hit_rate"),
    ("a repeat that is quicker", [("workload", "same prompt sent", "twice"), ("benchmark", "TTFT, turn 1 / turn 2",
     "4.1 s / 0.4 s")], "insufficient_evidence"),
    ("a repeat as slow that hits", [("workload", "same prompt sent", "twice"), ("benchmark", "TTFT, turn 1 / turn 2",
     "4.1 s / 4.0 s"), ("metric", "prefix cache hit rate", "93%")], "insufficient_evidence"),
    ("turns that are not known to repeat", [("benchmark", "TTFT, turn 1 / turn 2", "4.1 s / 4.0 s")],
     "insufficient_evidence"),
    ("hits that fall with the load", [("metric", f"prefix cache hit rate at concurrency {n}", f"{90 - 5 * n}%")
     for n in (1, 8)], "hit_rate"),
    ("hits that stay", [("metric", f"prefix cache hit rate at concurrency {n}", f"{90 - n}%") for n in (1, 8)],
     "insufficient_evidence"),
    ("an outer tier that finds nothing", [("workload", "repeated documents", "yes"), ("log", "LMCache hit tokens", 0)],
     "hit_rate"),
    ("processed anew", [("log", "forcing full prompt re-processing", "at each request")], "hit_rate"),
    ("not processed anew", [("log", "forcing full prompt re-processing", "no")], "insufficient_evidence"),
    ("a tier in two columns", [("benchmark", "wall time without / with hierarchical cache", "60 s / 110 s")],
     "offload"),
    ("a tier in two columns that pays", [("benchmark", "wall time without / with hierarchical cache", "110 s / 60 s")],
     "insufficient_evidence"),
    ("a store in two columns", [("benchmark", "baseline, first / second run", "20 s / 21 s"),
     ("benchmark", "remote store, first / second run", "22 s / 55 s")], "offload"),
    ("prefill in a request's own lines", [("log", "prompt eval time", "9 s"), ("log", "eval time", "2 s")], "compute"),
    ("a short prefill", [("log", "prompt eval time", "0.3 s"), ("log", "eval time", "2 s")], "insufficient_evidence"),
    ("kernels alone, at a fifth of the rate", [("profile", "graph execution", "9 ms"), ("profile", "launch", "0.2 ms"),
     ("benchmark", "achieved bandwidth", "300 GB/s"), ("hardware", "peak bandwidth", "1500 GB/s")], "compute"),
    ("a fifth of the rate, by what is not told", [("benchmark", "achieved bandwidth", "300 GB/s"),
     ("hardware", "peak bandwidth", "1500 GB/s")], "insufficient_evidence"),
    ("a grammar that costs", [("benchmark", "output throughput, without / with a grammar", "900 tok/s / 150 tok/s")],
     "host"),
    ("a grammar that costs little", [("benchmark", "output throughput, without / with a grammar",
     "900 tok/s / 800 tok/s")], "insufficient_evidence"),
    ("a grammar that is quicker", [("benchmark", "output throughput, without / with a grammar",
     "150 tok/s / 900 tok/s")], "insufficient_evidence"),
    ("tensor parallelism that costs", [("benchmark", "prefill rate, without / with tensor parallelism",
     "900 tok/s / 400 tok/s")], "network"),
    ("tensor parallelism that pays", [("benchmark", "prefill rate, without / with tensor parallelism",
     "400 tok/s / 900 tok/s")], "insufficient_evidence"),
    ("two kinds of parallelism differ in no feature", [("benchmark", "TTFT p50, PP4 / TP4 prefill", "9 s / 2 s")],
     "insufficient_evidence"),
    ("a clock in front", [("workload", "system prompt", "begins with a timestamp, new with every request")],
     "hit_rate"),
    ("a clock in front, on purpose", [("workload", "system prompt",
     "begins with a nonce for every request, to avoid hits")], "insufficient_evidence"),
    ("a clock in front and hits", [("workload", "system prompt", "has a timestamp for every request"),
     ("metric", "prefix cache hit rate", "88%")], "insufficient_evidence"),
    ("a clock at the end", [("workload", "user message", "ends with a timestamp, new with every request")],
     "insufficient_evidence"),
    ("nothing runs", [("process", "CPU usage", "100%"), ("metric", "running", 0)], "idle"),
    ("SGLang's gauge at 0", [("metric", "sglang:cache_hit_rate", 0), ("workload", "same prompts", "yes")],
     "insufficient_evidence"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "named"), [r[1:] for r in REPORTS], ids=[r[0] for r in REPORTS])
def test_a_report_is_answered_by_what_it_supports(told, named):
    found = diagnose(evidence_recording(rows(*told), "r"))
    assert found.primary_name == named, found.summary
    assert found.confidence.value != "high"


def test_idle_is_less_sure_where_the_queue_is_not_told():
    told = [("metric", "running", 0), ("metric", "waiting", 0)]
    sure = [diagnose(evidence_recording(rows(*told[:n]), "r")).confidence.value for n in (1, 2)]
    assert sure == ["low", "medium"]


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
