"""A running server in place of a model: its shape, batch, context and pool, read from what it tells."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar

import pytest

from kvdoctor.commands import running
from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.asked import Asked, question_of

PAGE = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {prompt}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {generated}
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="m",le="+Inf"}} {requests}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} {requests}
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} 1.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="32",cache_dtype="fp8",engine="0",num_gpu_blocks="1000"}} 1.0
"""
BUSY = {"running": 12, "prompt": 40000, "generated": 4000, "requests": 20}
IDLE = {"running": 0, "prompt": 0, "generated": 0, "requests": 0}


class Server(BaseHTTPRequestHandler):
    """A server that says what the test wants."""

    pages: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        """Answer a known path."""
        body = self.pages.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/json" if self.path != "/metrics" else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on the loopback; two readings at once rather than a second apart."""
    monkeypatch.setattr(running, "_INTERVAL", 0.01)
    monkeypatch.setattr(running, "_SECONDS", 0.01)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def serve(load: dict[str, int], model: str = "meta-llama/Llama-3.1-8B") -> None:
    """Set what the server says."""
    Server.pages = {
        "/metrics": PAGE.format(**load),
        "/v1/models": json.dumps({"data": [{"id": "m", "root": model}]}),
    }


def test_a_url_gives_shape_batch_context_pool_block_size_and_kv_dtype(url: str) -> None:
    serve(BUSY)
    asked, shape = running.filled(Asked(url))
    question = question_of(asked, shape)
    assert shape.name == "Llama-3.1-8B"
    assert (question.load.batch, question.load.context) == (12.0, 2100.0)
    assert (question.storage.block_size, question.storage.dtype) == (32, "fp8")
    pool = answer(question).fit.pool
    assert pool is not None
    assert (pool.blocks, pool.tokens) == (1000, 32000)
    assert any("since the server's start" in text for text in shape.warnings)


def test_what_the_user_says_goes_before_what_the_server_says(url: str) -> None:
    serve(BUSY)
    asked, _ = running.filled(
        Asked(url, batch=3.0, context="1k", kv_dtype="bf16", block_size=64, pool="5", tp=2, weights="fp8")
    )
    assert (asked.batch, asked.context, asked.kv_dtype, asked.block_size) == (3.0, "1k", "bf16", 64)
    assert (asked.pool, asked.tp) == ("5", 2)


def test_an_idle_server_is_answered_for_the_defaults_and_said_to_be_idle(url: str) -> None:
    serve(IDLE)
    asked, shape = running.filled(Asked(url))
    assert (asked.batch, asked.context) == (None, None)
    assert any("nothing runs" in text for text in shape.warnings)
    assert any("served nothing yet" in text for text in shape.warnings)


def test_a_model_that_is_not_known_asks_for_its_config(url: str) -> None:
    serve(BUSY, model="/nowhere/zork")
    with pytest.raises(KvdoctorError) as refusal:
        running.filled(Asked(url))
    assert "config.json" in refusal.value.hint


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(KvdoctorError):
        running.filled(Asked("http://127.0.0.1:1"))


def test_a_pid_gives_the_config_that_the_process_has_loaded(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(BUSY, model="/nowhere/zork")
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 512,
        "vocab_size": 1000,
    }
    facts = {"model": "/models/small", "model_config": json.dumps(config), "tp": "2", "block_size": "32"}
    target = SimpleNamespace(
        facts=tuple(facts.items()),
        page=SimpleNamespace(readable=True, url=url),
        gaps=(),
        family=SimpleNamespace(cards=(SimpleNamespace(name="NVIDIA L4"),)),
    )
    monkeypatch.setattr("kvdoctor.target.look.look", lambda: SimpleNamespace(at=lambda pid: target))
    asked, shape = running.filled(Asked("4242"))
    assert (shape.name, len(shape.layers)) == ("small", 2)
    assert (asked.gpu, asked.tp, asked.batch, asked.kv_dtype) == ("NVIDIA L4", 2, 12.0, "fp8")
    pool = answer(question_of(asked, shape)).fit.pool
    assert pool is not None
    assert pool.tokens == 32000


def test_a_pid_of_nobody_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdoctor.target.look.look", lambda: SimpleNamespace(at=lambda pid: None))
    with pytest.raises(KvdoctorError):
        running.filled(Asked("4242"))
