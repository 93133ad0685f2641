"""Logs in the shapes that they come in: what is read, in which order, and with which line as its place."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.diagnose import diagnose
from kvdoctor.engines.logline import ENGINE
from kvdoctor.errors import KvdoctorError
from kvdoctor.readers import read
from kvdoctor.readers.log import is_log
from kvdoctor.readers.logs import LINES
from kvdoctor.readers.logs.scan import KEPT, MAX_LINE, scan
from kvdoctor.readers.logs.stamp import stamp
from kvdoctor.readers.logs.wrapped import unwrapped
from kvdoctor.timeline import Timeline

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
STATS = (
    "Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {made} tokens/s, Running: {run} reqs, "
    "Waiting: {wait} reqs, GPU KV cache usage: {usage}%, Prefix cache hit rate: {hits}%"
)


def stats(
    second: int, *, prompt=10.0, made=40.0, run=1, wait=0, usage=5.0, hits=50.0, rank="000", minute=0
) -> str:
    """One periodic line of vLLM."""
    told = STATS.format(prompt=prompt, made=made, run=run, wait=wait, usage=usage, hits=hits)
    return f"INFO 07-18 09:{minute:02d}:{second:02d} [loggers.py:111] Engine {rank}: {told}\n"


def source(tmp_path, text, name="vllm.log"):
    """The one source of a log."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = read([str(path)]).sources
    return found


def values(found, quantity) -> list[float]:
    """What a source says of a quantity, in order."""
    line = Timeline(found, ENGINE, 0, len(found.at) - 1)
    pairs = [pair for c in line.columns(quantity) for pair in zip(c.index, c.value, strict=True)]
    return [value for _, value in sorted(pairs)]


def test_a_periodic_line_is_a_reading_with_its_time_and_its_line(tmp_path):
    found = source(tmp_path, "a banner\n" + stats(27) + "noise\n" + stats(37, run=3, usage=11.7))
    assert found.kind == "log"
    assert list(found.at) == [0.0, 10.0]
    assert values(found, m.RUNNING) == [1.0, 3.0]
    assert values(found, m.KV_CACHE_USAGE) == pytest.approx([0.05, 0.117])
    assert next(list(c.value) for c in found.columns if c.name == lm.LINE) == [2.0, 4.0]


# One line of each kind, in a form that the engine wrote at some time, and what it says.
FORMS = [
    ("vLLM V0", "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7220.5 tokens/s, Running: 2 reqs, "
     "Swapped: 3 reqs, Pending: 98 reqs, GPU KV cache usage: 73.8%, CPU KV cache usage: 0.5%.",
     {m.SWAPPED: 3, m.WAITING: 98, m.KV_CACHE_USAGE: 0.738}),
    ("vLLM 0.32", "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: "
     "1 reqs, Waiting: 4 reqs, Deferred: 3 reqs, KV fetch: 5 waiting to start, 6 in progress, 7 completed waiting, "
     "CPU KV cache usage: 1.5%, External prefix cache hit rate: 12.5%",
     {m.WAITING_DEFERRED: 3, m.KV_FETCH_IN_PROGRESS: 6, m.KV_FETCH_COMPLETED: 7, lm.EXTERNAL_HIT_RATE: 0.125}),
    ("vLLM transfers", "KV Transfer metrics: Num successful transfers=31, Avg xfer time (ms)=38.7, P90 xfer time "
     "(ms)=50, Avg post time (ms)=6.7, P90 post time (ms)=9.0, Avg MB per transfer=167.0, Throughput (MB/s)=4319.0",
     {lm.TRANSFER_TIME: 0.0387, lm.TRANSFER_SETUP: 0.0067, lm.TRANSFER_RATE: 4319 * 2**20}),
    ("vLLM speculation", "SpecDecoding metrics: Mean acceptance length: 2.31, Accepted throughput: 1.0 tokens/s",
     {lm.ACCEPT_LENGTH: 2.31}),
    ("vLLM start, two lines", "GPU KV cache size: 99,856 tokens", {lm.POOL_TOKENS: 99856}),
    ("vLLM start, one line", "CPU KV cache size: 6,144 tokens, Maximum concurrency for 2,048 tokens per request: 3.00x",
     {lm.POOL_TOKENS: 6144, lm.FULL_LENGTH: 3.0, lm.MAX_LENGTH: 2048}),
    ("vLLM preemption", "Sequence group 5 is preempted by PreemptionMode.SWAP mode because there is not enough KV",
     {m.PREEMPTIONS: 1, lm.SWAPS: 1}),
    ("SGLang prefill", "[2025-06-05 15:08:56 TP0] Prefill batch. #new-seq: 3, #new-token: 15000, #cached-token: 7, "
     "token usage: 0.06, #running-req: 7, #queue-req: 40",
     {lm.BATCH_NEW: 15000, lm.BATCH_CACHED: 7, m.WAITING: 40, m.KV_CACHE_USAGE: 0.06}),
    ("SGLang decode", "Decode batch, #running-req: 4, #full token: 2642688, full token usage: 1.00, swa token usage: "
     "0.06, accept len: 2.5, cuda graph: False, gen throughput (token/s): 429.34, #queue-req: 3",
     {m.RUNNING: 4, m.KV_CACHE_USAGE: 1.0, lm.GENERATION_RATE: 429.34, lm.ACCEPT_LENGTH: 2.5, lm.CUDA_GRAPH: 0}),
    ("SGLang retraction", "KV cache pool is full. Retract requests. #retracted_reqs: 5, #new_token_ratio: 0.1 -> 0.9",
     {m.PREEMPTIONS: 5, m.KV_CACHE_USAGE: 1.0}),
    ("SGLang start", "max_total_num_tokens=436741, chunked_prefill_size=8192, max_prefill_tokens=16384, "
     "max_running_requests=2049, context_len=131072",
     {lm.POOL_TOKENS: 436741, lm.STEP_TOKENS: 8192, lm.MAX_RUNNING: 2049}),
    ("LMCache look-up", "Reqid: cmpl-1, Total tokens 15444, LMCache hit tokens: 15444, need to load: 3",
     {lm.TIER_TOTAL: 15444, lm.TIER_HIT: 15444, lm.TIER_NEED: 3}),
    ("LMCache load", "LMCache INFO: Retrieved 256 out of 256 required tokens (from 512 total). size: 0.0137 GB, cost "
     "12.5 ms, throughput: 1.5 GB/s",
     {lm.LOADED: 256, lm.LOAD_TIME: 0.0125, lm.LOAD_RATE: 1.5 * 2**30}),
    ("LMCache store", "Stored 256 out of total 256 tokens. size: 0.0137 gb, cost 5.6482 ms, throughput: 2.5 GB/s",
     {lm.STORED: 256, lm.STORE_TIME: 0.0056482, lm.STORE_RATE: 2.5 * 2**30}),
    ("TensorRT-LLM", "[TRT-LLM] [I] iter = 7, global_rank = 0, rank = 0, host_step_time = 25.5ms, "
     "num_scheduled_requests: 8, states = {}", {lm.STEP: 0.0255, m.RUNNING: 8}),
    ("TensorRT-LLM 0.20", "[05/02/2025-11:00:00] [TRT-LLM] [I] iter = 9, rank = 0, currank_total_requests = 0/0, "
     "elapsed_time = 0.0125s, timestamp = 2025-05-02 11:00:00, num_scheduled_requests: 6, states = {}",
     {lm.STEP: 0.0125, m.RUNNING: 6}),
    ("LMCache load, chunks", "INFO LMCache: Retrieved 4 chunks (1024 tokens in total) --hit rate 31.00% -- elapsed "
     "time 0.0125 [2025-02-01 10:00:00,120]", {lm.LOADED: 1024, lm.LOAD_TIME: 0.0125}),
    ("LMCache without room", "LMCache WARNING: Failed to allocate memory for tensor(torch.Size([2, 32, 64, 128]), "
     "torch.float16) because no memory is available", {lm.TIER_FULL: 1}),
    ("Mooncake's benchmark", "Test completed: duration 10.02, batch count 512, throughput 0.75",
     {lm.TRANSFER_RATE: 0.75e9}),
    ("llama.cpp", "prompt eval time =  2942.25 ms /  2771 tokens ( 1.06 ms per token,  941.80 tokens per second)",
     {lm.PREFILL_TIME: 2.94225, lm.PREFILL_RATE: 941.8, lm.BATCH_NEW: 2771}),
    ("llama.cpp decode", "       eval time =     770.41 ms /    41 tokens (   18.79 ms per token,    53.22 tokens per "
     "second)", {lm.DECODE_TIME: 0.77041, lm.DECODE_RATE: 53.22}),
    ("TGI", 'text_generation_router: total_time="165.2s" validation_time="5.67ms" queue_time="161.4s" '
     'inference_time="3.8s" time_per_token="40.1ms"',
     {lm.QUEUED: 161.4, lm.REQUEST_TIME: 165.2, lm.ITL: 0.0401}),
    ("LMDeploy", "[2026-02-05 17:05:17 DP0] Avg thr (in/out): 4618.5 / 2756.3 tokens/s, API server "
     "(completed/routed/waiting): 1 / 50 / 50, Engine (running/waiting): 45 / 5, KV cache: 21.6%,",
     {lm.PROMPT_RATE: 4618.5, lm.GENERATION_RATE: 2756.3, m.RUNNING: 45, m.WAITING: 5, m.KV_CACHE_USAGE: 0.216}),
    ("Mooncake", "[Metrics] Transfer Engine Stats (over last 5s): Throughput: 812.5 MB/s | Latency Distribution",
     {lm.TRANSFER_RATE: 812.5 * 2**20}),
    ("NIXL under Dynamo", "nixl.write_blocks: Time to init xfer: 1800.25 ms", {lm.TRANSFER_SETUP: 1.80025}),
    ("UCX", "ucp_context_0 intra-node cfg#2 rma_am(tcp/eth1) amo_am(tcp/eth1) am(tcp/eth1 cuda_ipc/cuda)", {lm.TCP: 1}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [f[1:] for f in FORMS], ids=[f[0] for f in FORMS])
def test_a_line_says_its_numbers_in_base_units(tmp_path, text, said):
    found = source(tmp_path, text + "\n")
    for quantity, value in said.items():
        assert values(found, quantity) == [pytest.approx(value)], quantity.name


def _broken(line: str, at: int) -> str:
    return f"{line[:at]}\n{line[at:]}"


@pytest.mark.parametrize("word", ["generation throughput", "Running", " GPU KV", "usage"])
def test_a_line_that_a_terminal_broke_is_one(tmp_path, word):
    one, two = stats(27, run=7, wait=40, usage=98.5), stats(37, run=8)
    found = source(tmp_path, _broken(one, one.index(word) + 3) + "POST /v1 200 OK\n" + two)
    assert values(found, m.RUNNING) == [7.0, 8.0]
    assert values(found, m.WAITING) == [40.0, 0.0]
    assert values(found, m.KV_CACHE_USAGE) == pytest.approx([0.985, 0.05])
    assert next(list(c.value) for c in found.columns if c.name == lm.LINE) == [1.0, 4.0]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_broken_lines_are_looked_for_in_time_that_grows_with_the_text(end):
    one = b"Avg prompt throughput: generation throughput: KV cache usage: "
    for text in (one * 20_000 + end, (one + b"\n") * 20_000, (one * 10 + b"\n\n") * 2_000):
        assert unwrapped(text) == text


def test_a_line_that_is_short_by_itself_takes_nothing_from_the_next(tmp_path):
    short = "Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 6.0 tokens/s\n"
    found = source(tmp_path, short + stats(37, run=8, made=9.0))
    assert values(found, lm.GENERATION_RATE) == [6.0, 9.0]
    assert values(found, m.RUNNING) == [8.0]


@pytest.mark.parametrize(
    ("run", "usage", "named"),
    [(1, 70.0, "capacity"), (1, 30.0, "queueing"), (2, 80.0, "capacity"), (12, 60.0, "queueing")],
)
def test_a_pool_has_room_where_one_more_like_those_that_run_fits(tmp_path, run, usage, named):
    text = "".join(stats(n, prompt=0.0, run=run, wait=9, usage=usage) for n in (7, 17, 27, 37))
    path = tmp_path / "vllm.log"
    path.write_text(text)
    found = diagnose(read([str(path)]))
    assert found.primary_name == named, found.summary
    assert found.confidence.value == ("low" if named == "capacity" else "medium")


@pytest.mark.parametrize(
    ("offered", "ttft", "p99", "named"),
    [
        ("9.0", 12000, 30000, "queueing"),
        ("9.0", 120, 300, "healthy"),
        ("4.1", 12000, 30000, "insufficient_evidence"),
        ("inf", 12000, 30000, "insufficient_evidence"),
    ],
)
def test_what_a_serving_benchmark_prints_is_read(tmp_path, offered, ttft, p99, named):
    path = tmp_path / "bench.txt"
    path.write_text(
        f"Traffic request rate: {offered}\nMaximum request concurrency: None\n== Result ==\n"
        f"Request throughput (req/s):              4.0      \nMean TTFT (ms):     {ttft}.5   \n"
        f"P99 TTFT (ms):   {p99}.0   \nMean TPOT (ms):      21.5     \n"
    )
    found = diagnose(read([str(path)]))
    assert found.primary_name == named, found.summary
    assert found.confidence.value == "low"


def test_a_tier_that_has_no_room_is_named(tmp_path):
    line = "LMCache WARNING: Failed to allocate memory for tensor([2, 8]) because no memory is available\n"
    path = tmp_path / "lmcache.log"
    path.write_text(line * 3)
    found = diagnose(read([str(path)]))
    assert (found.primary_name, found.subclass) == ("offload", "tier_full")
    assert found.confidence.value == "low"


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


STAMPS = [
    (b"INFO 07-18 09:42:27 [loggers.py:111]", "2025-07-18T09:42:27"),
    (b"[2025-09-03 18:33:18 TP0] Decode batch", "2025-09-03T18:33:18"),
    (b"[2025-07-21 22:01:18,140] LMCache INFO", "2025-07-21T22:01:18.140"),
    (b"2025-05-28T21:32:44.357Z  INFO nixl", "2025-05-28T21:32:44.357"),
    (b"[03/13/2025-08:00:00] [TRT-LLM] [I]", "2025-03-13T08:00:00"),
    (b"I0728 06:40:59.123456 12 master.cpp", "2025-07-28T06:40:59.123456"),
    (b"Jul 28 06:40:59 host vllm[12]: INFO", "2025-07-28T06:40:59"),
    (b"[1753684859.5] [node-a:15:2] UCX", "2025-07-28T06:40:59.5"),
    (b"INFO 12-30 09:42:27 last year's", "2024-12-30T09:42:27"),
]


@pytest.mark.parametrize(("line", "moment"), STAMPS)
def test_a_time_is_read_in_the_forms_that_loggers_write(line, moment):
    from datetime import datetime, timezone

    latest = datetime(2025, 10, 1, tzinfo=timezone.utc).timestamp()
    wanted = datetime.fromisoformat(moment.ljust(26, "0") if "." in moment else moment)
    assert stamp(line, latest) == pytest.approx(wanted.replace(tzinfo=timezone.utc).timestamp())


@pytest.mark.parametrize("line", [b"no time here", b"INFO 02-31 09:42:27 no such day", b"13-45 99:99:99"])
def test_a_line_without_a_sensible_time_has_none(line):
    assert stamp(line, 1.76e9) is None


def test_lines_without_times_lie_a_usual_distance_apart_and_the_report_says_so(tmp_path):
    path = tmp_path / "bare.log"
    path.write_text("".join(stats(0).partition("] ")[2] for _ in range(3)))
    recording = read([str(path)])
    assert list(recording.sources[0].at) == [0.0, 10.0, 20.0]
    assert any("no time" in gap.reason for gap in recording.gaps)


def test_rotated_parts_are_one_log_in_whatever_order_they_are_named(tmp_path):
    (tmp_path / "vllm.log").write_text(stats(40, run=3))
    (tmp_path / "vllm.log.1").write_text(stats(20, run=2))
    with gzip.open(tmp_path / "vllm.log.2.gz", "wt") as file:
        file.write(stats(0, run=1))
    (found,) = read([str(tmp_path / n) for n in ("vllm.log", "vllm.log.2.gz", "vllm.log.1")]).sources
    assert values(found, m.RUNNING) == [1.0, 2.0, 3.0]
    assert list(found.at) == [0.0, 20.0, 40.0]


def test_two_replicas_are_two_sources(tmp_path):
    (tmp_path / "pod-a.log").write_text(stats(0))
    (tmp_path / "pod-b.log").write_text(stats(0))
    assert len(read([str(tmp_path / "pod-a.log"), str(tmp_path / "pod-b.log")]).sources) == 2


def test_processes_that_are_interleaved_are_told_apart_by_what_stands_in_front(tmp_path):
    path = tmp_path / "pods.log"
    path.write_text("".join(f"[pod/vllm-{n}/main] {stats(s, run=n)}" for s in (0, 10) for n in (1, 2)))
    found = {s.name: values(s, m.RUNNING) for s in read([str(path)]).sources}
    assert found == {"pods vllm-1": [1.0, 1.0], "pods vllm-2": [2.0, 2.0]}


def test_ranks_are_summed_where_they_share_a_log(tmp_path):
    text = "".join(stats(s, run=r + 1, rank=f"00{r}") for s in (0, 10) for r in (0, 1))
    found = source(tmp_path, text)
    line = Timeline(found, ENGINE, 0, len(found.at) - 1)
    assert line.ranks == ("0", "1")
    assert line.gauge(m.RUNNING).last == 3.0


def test_two_situations_in_one_file_are_two_sources(tmp_path):
    path = tmp_path / "both.log"
    path.write_text(f"# before\n{stats(0, run=1)}# after\n{stats(40, run=2)}")
    assert [s.name for s in read([str(path)]).sources] == ["both before", "both after"]


def test_only_what_follows_the_last_start_is_judged(tmp_path):
    start = (
        "INFO 07-18 09:02:00 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'\n"
    )
    before = "".join(stats(s, wait=90, run=2, usage=99.0) for s in range(0, 50, 10))
    after = "".join(stats(s, minute=3) for s in range(0, 50, 10))
    path = tmp_path / "vllm.log"
    path.write_text(before + start + after)
    found = diagnose(read([str(path)]))
    assert found.primary_name == "healthy"
    assert found.window.restarts == 1
    assert (found.targets[0].version, found.targets[0].model) == ("0.32.0", "tiny")


def test_what_lies_over_an_hour_before_the_last_line_is_not_now(tmp_path):
    path = tmp_path / "vllm.log"
    old = "".join(stats(s, wait=90, run=2, usage=99.0) for s in range(0, 50, 10))
    new = "".join(stats(s).replace(" 09:", " 15:") for s in range(0, 50, 10))
    path.write_text(old + new)
    assert diagnose(read([str(path)])).primary_name == "healthy"


def test_stdin_is_read(monkeypatch):
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(stats(0).encode()))

    monkeypatch.setattr(sys, "stdin", Pipe)
    (found,) = read(["-"]).sources
    assert found.name == "stdin"


def test_a_text_that_no_engine_wrote_is_refused_by_its_beginning(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\ntoday was slow\n")
    with pytest.raises(KvdoctorError, match="begins with: dear diary"):
        read([str(path)])


def test_a_log_whose_lines_begin_with_a_time_in_brackets_is_not_called_json(tmp_path):
    path = tmp_path / "notes.log"
    path.write_text("[2025-03-01 10:00:00] a word\n[2025-03-01 10:00:01] another\n")
    with pytest.raises(KvdoctorError, match="begins with: \\[2025-03-01"):
        read([str(path)])


@pytest.mark.parametrize(
    ("head", "log"),
    [
        (b"# HELP a b\n# TYPE a gauge\na 1\n", False),
        (b'vllm:num_requests_running{engine="0"} 1.0\n', False),
        (b"#@ 1.0 2\na 1\n", False),
        (b"\0\0\0", False),
        (b"<html>", False),
        (b'{"a": 1}', False),
        (b'{"log":"x","stream":"stdout"}', True),
        (b"INFO hello\nWARNING there\n", True),
        (b"", False),
    ],
)
def test_a_log_is_told_from_metrics_by_its_beginning(head, log):
    assert is_log(head) is log


def test_iteration_statistics_in_one_json_array_are_read_one_by_one(tmp_path):
    one = {"iter": 1, "iterLatencyMS": 25.0, "numActiveRequests": 8, "numQueuedRequests": 40,
           "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 995},
           "inflightBatchingStats": {"numPausedRequests": 2}}  # fmt: skip
    found = source(tmp_path, json.dumps([one, one]), "trt.stats.json")
    assert values(found, lm.STEP) == [0.025, 0.025]
    assert values(found, m.KV_CACHE_USAGE) == [0.995, 0.995]


def test_of_a_kind_that_comes_too_often_the_newest_lines_are_kept():
    text = b"".join(b"Prefill batch. #new-seq: %d\n" % n for n in range(KEPT + 5))
    found = scan(io.BytesIO(text), LINES)
    assert (len(found.hits), found.dropped, found.lines) == (KEPT, 5, KEPT + 5)
    assert found.hits[0].number == 6


def test_a_line_across_two_pieces_and_one_without_an_end_are_found(monkeypatch):
    monkeypatch.setattr("kvdoctor.readers.logs.scan.PIECE", 64)
    text = b"x" * 50 + b"\nPrefill batch. #new-seq: 3\n" + b"y" * 200 + b"\nPrefill batch. #new-seq: 4"
    assert [hit.number for hit in scan(io.BytesIO(text), LINES).hits] == [2, 4]


def test_of_a_line_without_end_no_more_than_its_surroundings_is_kept():
    found = scan(io.BytesIO(b"z" * 10_000_000 + b"Prefill batch. #new-seq: 3" + b"z" * 10_000_000), LINES)
    assert all(len(hit.text) <= MAX_LINE for hit in found.hits)


HOSTILE = st.lists(
    st.sampled_from(
        [f[1].encode() for f in FORMS]
        + [line.needle for line in LINES]
        + [
            b"\n",
            b"\r\n",
            b"\0",
            b"\xff\xfe",
            b"# before\n",
            b"9" * 400,
            b"1e999",
            b"-",
            b"%",
            b"{",
            b'"log":',
        ]
    )
    | st.binary(max_size=60),
    max_size=30,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_hostile_text_is_read_or_refused_and_never_breaks(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("hostile") / "x.log"
    path.write_bytes(b"INFO start\n" + text)
    try:
        found = diagnose(read([str(path)]))
    except KvdoctorError:
        return
    assert found.confidence.value != "high" or found.primary is None


def test_the_log_of_a_run_names_what_its_metrics_name():
    for name in ("admission-limit", "kv-too-small", "caching-off"):
        said = diagnose(read([str(LOGS / f"vllm-0.32-{name}.log")]))
        measured = diagnose(read([str(LOGS / f"vllm-0.32-{name}.prom.gz")]))
        assert said.primary_name == measured.primary_name, name
        assert said.confidence.value != "high"


def test_beside_metrics_a_log_is_a_note_and_the_metrics_answer():
    both = [str(LOGS / f"vllm-0.32-admission-limit.{end}") for end in ("log", "prom.gz")]
    found = diagnose(read(both))
    assert found.ledgers
    assert any("as far as a log tells" in note for note in found.notes)


def test_every_number_names_the_line_it_came_from():
    found = diagnose(read([str(LOGS / "vllm-0.32-admission-limit.log")]))
    sources = [e.source for f in found.findings for e in f.evidence if e.value is not None]
    assert sources
    assert any("line " in text for text in sources)
