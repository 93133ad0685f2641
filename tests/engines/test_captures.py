"""Each page as published or generated: engine, release, the signals it must give, and no bound from one reading."""

from __future__ import annotations

import pytest
from readings import CAPTURES, capture

from kvdoctor import metrics as m
from kvdoctor.described import LAYER
from kvdoctor.diagnose import diagnose
from kvdoctor.engines import LAYERS, layers_of, recognise, version_range
from kvdoctor.model import Bound, State, Verdict
from kvdoctor.readers import read
from kvdoctor.timeline import Timeline

SCHEDULER = {m.RUNNING, m.WAITING, m.KV_CACHE_USAGE}
LATENCY = {m.TTFT, m.ITL, m.E2E}
TOKENS = {m.PROMPT_TOKENS, m.GENERATED, m.FINISHED}
CACHE = {m.PREFIX_QUERIES, m.PREFIX_HITS}
VLLM = SCHEDULER | LATENCY | TOKENS | CACHE | {m.QUEUE, m.PREFILL, m.DECODE, m.PREEMPTIONS, m.CACHE_CONFIG}
SGLANG = SCHEDULER | LATENCY | TOKENS | CACHE
TRT = {m.TTFT, m.TPOT, m.E2E, m.QUEUE, m.FINISHED}

# file: engine, release, signals of the engine, signals of the layers
EXPECTED = {
    "dcgm-exporter-2.4-a100-mig-busy-docs.prom": (
        None, None, set(), {"dcgm": {m.DRAM_ACTIVE, m.TENSOR_ACTIVE, m.ENGINE_ACTIVE, m.GPU_PCIE_IN, m.GPU_PCIE_OUT}}
    ),
    "dcgm-exporter-4.x-tesla-t4-idle.prom": (None, None, set(), {"dcgm": {m.DRAM_ACTIVE, m.TENSOR_ACTIVE}}),
    "dcgm-exporter-readme-sentinel.prom": (None, None, set(), {"dcgm": set()}),
    "dynamo-0.8-frontend-docs.prom": (
        "dynamo", ">=0.8", LATENCY | TOKENS | {m.RUNNING, m.POOL_TOKENS, m.BLOCK_SIZE}, {}
    ),
    "llamacpp-2026-server.prom": (
        "llamacpp", None, {m.RUNNING, m.WAITING, m.PROMPT_COMPUTED, m.GENERATED, m.STEPS, m.OUTPUT_SECONDS}, {}
    ),
    "lmcache-0.3.7-inprocess-generated.prom": (
        None, None, set(), {"lmcache": {m.LOAD_SECONDS, m.LOADS, m.STORE_SECONDS, m.EXTERNAL_HITS, m.TIER_USED}}
    ),
    "lmcache-0.3.9-excerpt.prom": ("vllm", None, {m.TTFT}, {"lmcache": {m.EXTERNAL_HITS}}),
    "lmcache-0.5.6-inprocess-generated.prom": (
        None, None, set(),
        {"lmcache": {m.LOAD_SECONDS, m.LOADS, m.LOOKUP, m.TIER_READ_BYTES, m.TIER_READ_SECONDS, m.TIER_EVICTIONS,
                     m.TIER_FAILURES, m.EXTERNAL_QUERIES, m.EXTERNAL_HITS}},
    ),
    "lmcache-0.5.6-mp-server-generated.prom": (
        None, None, set(),
        {"lmcache_mp": {m.EXTERNAL_QUERIES, m.EXTERNAL_HITS, m.CACHED_HOST, m.TIER_FILL, m.TIER_USED,
                        m.TIER_EVICTIONS, m.TIER_FAILURES, m.LOAD_RATE, m.TIER_RATE, m.TELEMETRY_LOST}},
    ),
    "lmdeploy-0.18.0-generated.prom": (
        "lmdeploy", ">=0.14.0",
        LATENCY | TOKENS | CACHE | {m.RUNNING, m.WAITING, m.KV_ALLOCATED, m.QUEUE, m.PREFILL, m.DECODE}, {},
    ),
    "mooncake-master-0.3.13-loopback.prom": (
        None, None, set(),
        {"mooncake_master": {m.TIER_USED, m.TIER_CAPACITY, m.TIER_FILL, m.TIER_QUERIES, m.TIER_HITS, m.TIER_EVICTIONS}},
    ),
    "mooncake-tent-docs-example.prom": (
        None, None, set(),
        {"mooncake_tent": {m.TRANSFER_BYTES, m.TRANSFERS, m.TRANSFER_TCP_BYTES, m.TRANSFER_FAILURES,
                           m.TRANSFER_FAILOVERS}},
    ),
    "sglang-0.4-overloaded-docs.prom": ("sglang", "<=0.4.3", SCHEDULER | LATENCY | TOKENS, {}),
    "sglang-0.4.6-generated.prom": ("sglang", "0.4.6 to 0.5.2", SGLANG, {}),
    "sglang-0.5.2-generated.prom": ("sglang", "0.5.2 to 0.5.2", SGLANG | {m.PREEMPTIONS}, {}),
    "sglang-0.5.8-generated.prom": (
        "sglang", "0.5.7 to 0.5.10",
        SGLANG | {m.QUEUE, m.PREEMPTIONS, m.PROMPT_COMPUTED, m.POOL_TOKENS, m.DECODE_CONTEXT, m.KV_FETCH_IN_PROGRESS},
        {},
    ),
    "sglang-0.5.23-generated.prom": (
        "sglang", ">=0.5.22",
        SGLANG | {m.QUEUE, m.PREEMPTIONS, m.PROMPT_COMPUTED, m.PROMPT_EXTERNAL, m.EXTERNAL_HITS, m.CACHED_DEVICE,
                  m.CACHED_HOST, m.CACHED_DISK, m.TIER_FILL, m.KV_EVICTABLE, m.POOL_TOKENS, m.BLOCK_SIZE,
                  m.REQUEST_COMPUTED}, {},
    ),
    "sglang-0.5.7-dynamo-worker-docs.prom": (
        "sglang", "0.5.7 to 0.5.10", SGLANG | {m.QUEUE, m.STEPS, m.POOL_TOKENS}, {}
    ),
    "sglang-0.5.7-hicache-mooncake-excerpt.prom": ("sglang", ">=0.5.2", set(), {}),
    "tgi-3.3.7-rendered.prom": (
        "tgi", "<=3.3.7",
        SCHEDULER | TOKENS | {m.E2E, m.QUEUE, m.PREFILL, m.STEP_SECONDS, m.STEPS, m.ADMISSION_REJECTIONS, m.FAILED}, {},
    ),
    "trtllm-1.1-unprefixed-excerpt.prom": ("tensorrt_llm", "<=1.1", set(), {}),
    "trtllm-1.2-dynamo-worker-docs.prom": ("tensorrt_llm", None, TRT, {}),
    "trtllm-main-2026-rendered.prom": (
        "tensorrt_llm", ">=1.3",
        SCHEDULER | TRT | CACHE | {m.PROMPT_TOKENS, m.GENERATED, m.PREFILL, m.DECODE, m.PAUSED, m.LOAD_BYTES,
                                   m.STORE_BYTES, m.TIER_FILL, m.POOL_TOKENS, m.BLOCK_SIZE}, {},
    ),
    "vllm-0.8.5-generated.prom": ("vllm", "<=0.11.2", VLLM, {}),
    "vllm-0.11.2-generated.prom": ("vllm", "0.11.1 to 0.14.1", VLLM, {}),
    "vllm-0.13-lmcache-0.3-dynamo-worker-docs.prom": (
        "vllm", ">=0.13.0", VLLM - {m.CACHE_CONFIG}, {"lmcache": {m.EXTERNAL_HITS, m.TIER_READ_BYTES, m.TIER_USED}}
    ),
    "vllm-0.20.0-generated.prom": ("vllm", ">=0.20.0", VLLM | {m.PROMPT_COMPUTED}, {}),
    "vllm-0.22-idle-excerpt.prom": ("vllm", ">=0.20.0", SCHEDULER | {m.PREEMPTIONS}, {}),
    "vllm-0.28.0-a10-qwen3-8b-awq-90pct-hit.prom": ("vllm", ">=0.20.0", VLLM | {m.PROMPT_COMPUTED}, {}),
    "vllm-0.28.0-generated.prom": ("vllm", ">=0.20.0", VLLM | {m.PROMPT_COMPUTED}, {}),
    "vllm-0.32.0-generated.prom": ("vllm", ">=0.32.0", VLLM | {m.CACHED_DEVICE, m.CACHED_HOST}, {}),
    "vllm-0.32.0-nixl-generated.prom": (
        "vllm", ">=0.32.0",
        VLLM | {m.TRANSFER_BYTES, m.TRANSFER_SECONDS, m.TRANSFERS, m.TRANSFER_DESCRIPTORS, m.KV_FETCH_IN_PROGRESS}, {},
    ),
    "vllm-0.5-v0-datadog-fixture.prom": (
        "vllm", "<=0.10", SCHEDULER | LATENCY | {m.PROMPT_TOKENS, m.GENERATED, m.SWAPPED, m.PREEMPTIONS}, {}
    ),
    "vllm-0.7-v0-truncated-aibrix-docs.prom": ("vllm", "<=0.8.5", SCHEDULER, {}),
    "vllm-mixed-v0v1-datadog-fixture.prom": ("vllm", "names of several releases", SCHEDULER | TOKENS, {}),
}  # fmt: skip


@pytest.mark.skipif(not CAPTURES.exists(), reason="the captures are not here")
def test_no_capture_is_left_out():
    assert {path.name for path in CAPTURES.glob("*.prom")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_capture_gives_engine_release_and_signals(name):
    engine_name, version, signals, layers = EXPECTED[name]
    (source,) = read([capture(name)]).sources
    series = [(c.name, c.labels) for c in source.columns]
    engine = recognise(series)
    assert (engine.name if engine else None) == engine_name
    last = len(source.at) - 1
    if engine is not None:
        assert version_range(engine, (c.name for c in source.columns)) == version
        line = Timeline(source, engine, -1, last)
        assert {q.name for q in signals if not line.has(q)} == set()
    found = {layer.name: Timeline(source, layer, -1, last) for layer in layers_of(series)}
    assert set(found) == set(layers)
    for each, wanted in layers.items():
        assert {q.name for q in wanted if not found[each].has(q)} == set()


@pytest.mark.parametrize("name", EXPECTED)
def test_one_reading_names_no_bound(name):
    found = diagnose(read([capture(name)]))
    assert found.primary is None
    assert found.state in (State.INSUFFICIENT, State.IDLE)
    assert not [f for f in found.findings if f.verdict is Verdict.LIKELY]
    assert {t.role for t in found.targets if t.engine in {each.name for each in LAYERS}} <= {LAYER}


def verdicts(name):
    """Verdict by bound and subclass."""
    found = diagnose(read([capture(name)]))
    return {(f.bound, f.subclass): f.verdict for f in found.findings}


def test_the_ninety_percent_case_rules_out_what_a_lifetime_can():
    found = verdicts("vllm-0.28.0-a10-qwen3-8b-awq-90pct-hit.prom")
    for cause in (
        (Bound.CAPACITY, "preemption"),
        (Bound.CAPACITY, "admission"),
        (Bound.HIT_RATE, "disabled"),
        (Bound.HIT_RATE, "prefix_mismatch"),
        (Bound.COMPUTE, "interference"),
        (Bound.QUEUEING, None),
    ):
        assert found[cause] is Verdict.RULED_OUT, cause
    whole = diagnose(read([capture("vllm-0.28.0-a10-qwen3-8b-awq-90pct-hit.prom")])).ledgers
    assert whole["itl"].seconds == pytest.approx(1443.06 / 74154, rel=1e-4)


def test_a_long_queue_of_which_no_time_is_told_is_possible_and_never_ruled_out():
    found = verdicts("sglang-0.4-overloaded-docs.prom")
    assert found[Bound.QUEUEING, None] is Verdict.POSSIBLE
    assert found[Bound.COMPUTE, "prefill"] is Verdict.NO_DATA
    assert found[Bound.CAPACITY, "admission"] is Verdict.RULED_OUT


def test_a_mixture_that_never_was_one_release_is_said_to_be_one():
    found = diagnose(read([capture("vllm-mixed-v0v1-datadog-fixture.prom")]))
    assert any("releases that never were one" in gap.reason for gap in found.gaps)


def test_what_a_finished_server_still_shows_is_no_load():
    found = diagnose(read([capture("sglang-0.5.7-dynamo-worker-docs.prom")]))
    assert found.primary is None
    (source,) = read([capture("sglang-0.5.7-dynamo-worker-docs.prom")]).sources
    engine = recognise((c.name, c.labels) for c in source.columns)
    assert Timeline(source, engine, -1, 0).gauge(m.DECODE_CONTEXT).last == 313
    assert Timeline(source, engine, -1, 0).gauge(m.RUNNING).last == 0


def test_first_tokens_and_gaps_give_the_output_tokens_as_they_come():
    (source,) = read([capture("sglang-0.5.7-dynamo-worker-docs.prom")]).sources
    engine = recognise((c.name, c.labels) for c in source.columns)
    line = Timeline(source, engine, -1, 0)
    assert line.total(m.GENERATED) == 300
    assert line.histogram(m.ITL).count + line.histogram(m.TTFT).count == 300
