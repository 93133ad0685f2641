"""The load generator against a real local server."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from benchmarks.completions import Target
from benchmarks.load import Ledger, closed_loop, open_loop, request, span, summary
from benchmarks.prompts import Shape, prompt

POOLS = ("read write seek", "open close stat")
SHARED = Shape("shared", POOLS[:1], 3, (2, 2), (4, 4), fell_after_s=25.0)


def shape(prefix: str) -> Shape:
    return Shape(prefix, POOLS[:1], 3, (2, 2), (4, 4), fell_after_s=25.0)


def event(count: int, text: str) -> str:
    return (
        "data: " + json.dumps({"choices": [{"text": text}], "usage": {"completion_tokens": count}}) + "\n\n"
    )


LAST = {
    "choices": [],
    "usage": {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 32}},
    "metrics": {"queue_time_ms": 12.0, "time_to_first_token_ms": 30.0, "generation_time_ms": 9.0},
}
WHOLE = event(1, "") + event(2, "a") + event(4, "bc") + f"data: {json.dumps(LAST)}\n\ndata: [DONE]\n\n"


@contextmanager
def server(answer: str, status: int = 200) -> Iterator[tuple[Target, list[dict[str, Any]]]]:
    """A completions endpoint that gives every request the same answer, and the bodies that it was sent."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Target("127.0.0.1", http.server_address[1], "/v1/completions", "tiny"), bodies
        finally:
            http.shutdown()
            thread.join()


def ask(target: Target) -> Any:
    return request(target, SHARED, random.Random(1), client=0, elapsed_s=0.0, late_s=0.0)


def test_tokens_of_one_event_share_its_time() -> None:
    with server(WHOLE) as (target, _):
        record = ask(target)
    assert record.error is None
    assert len(record.token_s) == 4
    assert record.token_s[2] == record.token_s[3]
    assert record.token_s == sorted(record.token_s)


def test_the_first_text_is_told_apart_from_the_first_token() -> None:
    with server(WHOLE) as (target, _):
        record = ask(target)
    assert record.first_text_s == record.token_s[1]


def test_what_the_engine_says_of_the_request_is_kept() -> None:
    with server(WHOLE) as (target, _):
        record = ask(target)
    assert (record.prompt_tokens, record.cached_tokens) == (40, 32)
    assert (record.engine_queue_s, record.engine_prefill_s, record.engine_decode_s) == (0.012, 0.03, 0.009)


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ("", 503, "HTTP 503"),
        (event(1, "a"), 200, "ended before [DONE]"),
        ('data: {"error": {"message": "no room"}}\n\n', 200, "no room"),
        ("data: {half", 200, "JSONDecodeError"),
    ],
)
def test_a_failure_is_a_record_with_an_error(answer: str, status: int, message: str) -> None:
    with server(answer, status) as (target, _):
        record = ask(target)
    assert message in str(record.error)


def test_a_refused_connection_is_a_record_with_an_error() -> None:
    with server(WHOLE) as (target, _):
        pass
    assert "ConnectionRefusedError" in str(ask(target).error)


def test_the_closed_loop_runs_every_client_and_no_prompt_is_written() -> None:
    out = io.StringIO()
    ledger = Ledger(out)
    with server(WHOLE) as (target, bodies):
        closed_loop(target, SHARED, ledger, clients=3, seed=1, run_s=0.05, pause_s=0.0)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {line["client"] for line in lines} == {0, 1, 2}
    assert len(lines) == len(bodies) == len(ledger.records)
    assert lines[0]["prompt_chars"] == len(bodies[0]["prompt"])
    assert "read write" not in out.getvalue()


def test_the_open_loop_sends_what_its_seed_says() -> None:
    counts = []
    for _ in range(2):
        ledger = Ledger(None)
        with server(WHOLE) as (target, _):
            open_loop(target, SHARED, ledger, rate=200.0, seed=3, run_s=0.1)
        counts.append(len(ledger.records))
    assert counts[0] == counts[1] > 5


@pytest.mark.parametrize(
    ("prefix", "elapsed_s", "starts"),
    [
        ("shared", 0.0, True),
        ("salted", 0.0, False),
        ("none", 0.0, False),
        ("fell", 24.9, True),
        ("fell", 25.0, False),
    ],
)
def test_only_a_shared_prompt_starts_with_its_prefix(prefix: str, elapsed_s: float, starts: bool) -> None:
    assert prompt(shape(prefix), random.Random(1), elapsed_s).startswith(POOLS[0]) is starts


def test_a_salted_prompt_differs_in_its_first_word_only() -> None:
    first, rest = prompt(shape("salted"), random.Random(1), 0.0).split(" ", 1)
    other, _ = prompt(shape("salted"), random.Random(2), 0.0).split(" ", 1)
    assert first != other
    assert rest.startswith(POOLS[0])


def test_a_range_is_one_number_or_two() -> None:
    assert (span("20"), span("10:40")) == ((20, 20), (10, 40))


def test_the_summary_counts_failures_apart() -> None:
    with server(WHOLE) as (target, _):
        good = ask(target)
    told = summary([good, ask(target)], 2.0, [0.03])
    assert (told["requests"], told["errors"], told["tokens_per_s"]) == (1, 1, 2.0)
    assert told["client_stalls"] == {"count": 1, "seconds": 0.03}
