"""The metrics of a lab server, read by the adapter as kvdoctor reads any engine's."""

from __future__ import annotations

from labs import core, serve
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kvdoctor.engines import lab as adapter
from kvdoctor.engines import recognise, vllm
from kvdoctor.lab.counting import Life, Metrics
from kvdoctor.lab.settings import TierSetting

TELLING = ("source", "reason", "stage", "finished_reason")
PROMPT, OTHER = range(100), range(200, 300)


def page(reports, metrics):
    """What /metrics would say after some reports."""
    lives = {}
    for report in reports:
        metrics.report(report)
        for update in report.updates:
            life = lives.setdefault(update.name, Life(update.queued, 100))
            metrics.update(update, life, update.at)
    return values(metrics)


def values(metrics):
    """Every sample by name and telling labels."""
    text = generate_latest(metrics.make.registry).decode()
    found = {}
    for sample in (s for family in text_string_to_metric_families(text) for s in family.samples):
        keys = [sample.labels[name] for name in TELLING if name in sample.labels]
        found["/".join([sample.name.removeprefix("kvlab:"), *keys])] = sample.value
    return found


def test_the_adapter_knows_the_page_and_reads_what_it_reads_of_vllm():
    assert recognise(["kvlab:num_requests_running"]) is adapter.ENGINE
    assert adapter.ENGINE.signals.keys() == vllm.ENGINE.signals.keys()


def test_what_fills_at_the_first_token_and_what_at_the_end():
    one, metrics = core(pool_blocks=40), Metrics("lab")
    reports = serve(one, ("a", PROMPT, 3))
    first = page(reports[:1], metrics)
    assert (first["time_to_first_token_seconds_count"], first["prompt_tokens_total"]) == (1, 100)
    assert (first["request_queue_time_seconds_count"], first["e2e_request_latency_seconds_count"]) == (0, 0)
    last = page(reports, Metrics("lab"))
    assert last["inter_token_latency_seconds_count"] == 2
    assert last["generation_tokens_total"] == 3
    assert last["request_success_total/length"] == 1
    assert (last["request_queue_time_seconds_count"], last["request_prefill_time_seconds_count"]) == (1, 1)


def test_tokens_are_told_by_source_and_promises_beside_what_came():
    one, metrics = core(pool_blocks=7, tiers=(TierSetting("host", 50),)), Metrics("lab", {"host"})
    reports = serve(one, ("a", PROMPT, 1)) + serve(one, ("b", OTHER, 1)) + serve(one, ("c", PROMPT, 1))
    one.close()
    told = page(reports, metrics)
    assert told["external_prefix_cache_hits_total"] == 96
    assert told["prompt_tokens_by_source_total/external_kv_transfer"] == 96
    assert told["prompt_tokens_cached_by_source_total/host"] == 96
    assert told["prompt_tokens_by_source_total/local_compute"] == 204
    assert told["kv_offload_load_size_count"] == 1
    assert told["kv_offload_load_bytes_total"] == told["kv_offload_load_size_sum"]


def test_an_aborted_request_is_counted_and_fills_no_latency():
    from kvdoctor.lab.messages import Update

    metrics = Metrics("lab")
    metrics.update(Update("a", None, 1.0, 0.5, 0.6, 0.0, reason="abort"), Life(0.4, 10), 1.0)
    told = values(metrics)
    assert (told["request_success_total/abort"], told["e2e_request_latency_seconds_count"]) == (1, 0)


def test_a_server_without_tiers_exports_none_of_their_families():
    assert not [name for name in values(Metrics("lab")) if "external" in name or "nixl" in name or ("kv_" in name[:3]
                and "usage" not in name)]  # fmt: skip
