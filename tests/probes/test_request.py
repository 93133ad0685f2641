"""One prompt against a server that answers from a table: what the client sees, what the engine counted."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import request
from kvdoctor.probes.request import Options, counters
from kvdoctor.probes.sse import Server

PROMPT = "the secret prompt of a customer"


class Engine(BaseHTTPRequestHandler):
    """Caches whole prompts, and counts."""

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        state = self.server.state
        if self.path == "/v1/models":
            self._send(json.dumps({"data": [{"id": "m"}]}))
        elif self.path == "/metrics":
            self._send(
                f'x_hits_total{{engine="0"}} {state["hits"]}\nx_prefill_seconds_sum {state["prefill"]}\nx_now 3\n'
            )
        else:
            self.send_error(404)

    def do_POST(self):
        state = self.server.state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state["bodies"].append(body)
        if state["status"] != 200:
            self.send_error(state["status"])
            return
        hit = body["prompt"] in state["cache"]
        state["cache"].add(body["prompt"])
        state["hits"] += 100 * hit
        state["prefill"] += 0.001 if hit else 0.5
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 96 * hit},
        }
        events = [{"choices": [{"text": t}]} for t in state["texts"]] + [{"choices": [], "usage": usage}]
        self._send("".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n")

    def _send(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def engine():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.state = {
        "cache": set(),
        "hits": 0,
        "prefill": 0.0,
        "bodies": [],
        "status": 200,
        "texts": ["", "a", "b"],
    }
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def asked(engine, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT)
    return Options(f"http://127.0.0.1:{engine.server_address[1]}", str(prompt))


def quiet(doing, share):
    """Say nothing."""


def test_a_miss_a_fill_and_five_hits(engine, asked):
    found = request.run(asked, quiet)
    rows = {row["op"]: row for row in found["rows"]}
    assert [len(rows[op]["repeats"]) for op in ("miss", "fill", "hit")] == [1, 1, 5]
    assert rows["miss"]["cached_tokens"] == [0]
    assert rows["hit"]["cached_tokens"] == [96] * 5
    prompts = [body["prompt"] for body in engine.state["bodies"]]
    assert prompts[0].endswith(PROMPT)
    assert prompts[0] != PROMPT
    assert prompts[1:] == [PROMPT] * 6


def test_the_engines_own_counters_are_told_a_request(asked):
    rows = {row["op"]: row for row in request.run(asked, quiet)["rows"]}
    assert rows["miss"]["counted"] == {"x_prefill_seconds_sum": pytest.approx(0.5)}
    assert rows["hit"]["counted"] == {"x_hits_total": 100.0, "x_prefill_seconds_sum": pytest.approx(0.001)}


def test_the_prompt_is_in_no_result(asked):
    assert PROMPT not in json.dumps(request.run(asked, quiet))


def test_the_first_token_with_text_counts(engine, asked):
    engine.state["texts"] = ["", ""]
    with pytest.raises(KvdoctorError, match="held no text"):
        request.run(asked, quiet)


def test_a_server_that_refuses_is_named(engine, asked):
    engine.state["status"] = 404
    with pytest.raises(KvdoctorError, match="answers 404"):
        request.run(asked, quiet)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://x", "no address of a server"),
        ("http://127.0.0.1:9", "Connection refused"),
        ("http://127.0.0.1:99999", "no address of a server"),
        ("http://[::1/", "no address of a server"),
        ("http://127.0.0.1:9/a b", "no address of a server"),
    ],
)
def test_a_wrong_address_is_a_clear_line(asked, url, text):
    with pytest.raises(KvdoctorError, match=text):
        request.run(Options(url, asked.prompt_file), quiet)


def test_counters_are_summed_over_labels_and_gauges_left_out():
    page = '# HELP a_total x\na_total{e="0"} 1\na_total{e="1"} 2\nb_count 4\nnow 5\nbad_total x\n'
    assert counters(page) == {"a_total": 3.0, "b_count": 4.0}


def test_a_password_in_the_address_is_sent_and_never_shown(engine, asked):
    place = asked.url.removeprefix("http://")
    found = request.run(Options(f"http://me:pass%21@{place}/?api_key=s3", asked.prompt_file), quiet)
    assert found["device"] == f"http://***@{place}/"
    assert Server(f"http://me:pass%21@{place}")._headers()["Authorization"] == "Basic bWU6cGFzcyE="
    engine.state["status"] = 401
    with pytest.raises(KvdoctorError) as caught:
        request.run(Options(f"http://me:hidden@{place}", asked.prompt_file), quiet)
    assert "hidden" not in caught.value.message


def test_a_key_that_no_header_can_carry_is_not_shown(asked, monkeypatch):
    monkeypatch.setenv("KVDOCTOR_API_KEY", "sk-hidden\nX: y")
    with pytest.raises(KvdoctorError, match="API key") as caught:
        request.run(asked, quiet)
    assert "hidden" not in caught.value.message
