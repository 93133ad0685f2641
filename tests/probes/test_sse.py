"""What is no stream of a completion: refusals with a cure that fits, answers without text, garbage."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.sse import Answer, Server


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"\x00garbage\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * (2**20 + 9), "stream does not end"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "lists no model"),
    ],
    ids=["garbage", "endless", "nested"],
)
def test_what_is_no_server_of_completions_is_a_clear_line(answer, text):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answering, args=(listener, answer))
        thread.start()
        server = Server(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(KvdoctorError, match=text):
            server.model() if "model" in text else server.complete("x", model="m", tokens=1)
        thread.join()


def answering(listener, answer):
    """Answer one connection with these bytes, whatever it asks; what was not read would reset it at the end."""
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        connection.recv(65536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def asked(answer, tokens=4):
    """What one completion gives against a server that answers these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answering, args=(listener, answer))
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            return Server(url).complete("the secret prompt", model="m", tokens=tokens)
        finally:
            thread.join()


def refused(status, body=""):
    head = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n\r\n"
    with pytest.raises(KvdoctorError) as caught:
        asked((head + body).encode())
    return caught.value


@pytest.mark.parametrize(
    ("status", "body", "message", "cure"),
    [
        (400, "This model's maximum context length is 2048 tokens.", "longer than it takes", "a shorter one"),
        (400, "Input (9000 tokens) is too long", "longer than it takes", "a shorter one"),
        (413, "", "longer than it takes", "a shorter one"),
        (400, "unknown field", "answers 400", "/v1/completions"),
        (404, "", "answers 404", "--served-model"),
        (401, "", "answers 401", "KVDOCTOR_API_KEY"),
        (503, "", "answers 503", "less busy"),
        (500, "", "answers 500", "the server's log"),
    ],
)
def test_a_refusal_has_a_cure_that_fits_it(status, body, message, cure):
    found = refused(status, f"{body} the secret prompt")
    assert message in found.message
    assert cure in found.hint
    assert "secret" not in found.message + found.hint


def streamed(texts, made):
    events = [{"choices": [{"text": text}]} for text in texts]
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": made}})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_tokens_that_are_no_text_count_where_each_event_is_one():
    found = asked(streamed(["", "", "", ""], 4))
    assert isinstance(found, Answer)
    assert 0 < found.ttft_s <= found.total_s


@pytest.mark.parametrize(
    ("texts", "made", "tokens", "message", "cure"),
    [
        (["", "", "", "", ""], 4, 4, "no text in 4 tokens", "--tokens 16"),
        (["", ""], 8, 8, "no text in 8 tokens", "--tokens 32"),
        ([""], 0, 4, "the model ended it at once", "--prompt-file"),
        ([], None, 4, "the model ended it at once", "--prompt-file"),
    ],
)
def test_more_tokens_are_advised_only_where_all_came(texts, made, tokens, message, cure):
    with pytest.raises(KvdoctorError, match=message) as caught:
        asked(streamed(texts, made), tokens)
    assert cure in caught.value.hint
