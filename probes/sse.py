"""One streamed completion over HTTP: when its first token came, and what the server says it cached."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kvdoctor.errors import KvdoctorError

TIMEOUT_S = 120.0
MAX_PAGE = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request showed at the client; None where the server does not say."""

    ttft_s: float
    total_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class Server:
    """An OpenAI-compatible server."""

    url: str
    key: str = ""

    def complete(self, prompt: str, *, model: str, tokens: int) -> Answer:
        """Send one streamed completion and time it. KvdoctorError where the server refuses it."""
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        connection = self._connection()
        try:
            connection.connect()  # the connection's own time is not the engine's
            begin = time.perf_counter()
            connection.request("POST", self._path("/v1/completions"), json.dumps(body), self._headers())
            response = connection.getresponse()
            if response.status != 200:
                raise KvdoctorError(f"{self.url} answers {response.status}", "does it serve /v1/completions?")
            return _timed(_events(response), begin)
        except OSError as error:
            raise KvdoctorError(f"{self.url}: {error}", "check the URL") from error
        finally:
            connection.close()

    def model(self) -> str:
        """Return the first model that the server lists."""
        try:
            return str(json.loads(self.page("/v1/models"))["data"][0]["id"])
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise KvdoctorError(f"{self.url} lists no model", "--served-model NAME") from error

    def page(self, path: str) -> str:
        """Return a page as text; empty where the server has none."""
        connection = self._connection()
        try:
            connection.request("GET", self._path(path), headers=self._headers())
            response = connection.getresponse()
            return response.read(MAX_PAGE).decode("utf-8", "replace") if response.status == 200 else ""
        except OSError as error:
            raise KvdoctorError(f"{self.url}: {error}", "check the URL") from error
        finally:
            connection.close()

    def _path(self, path: str) -> str:
        return urlsplit(self.url).path.rstrip("/").removesuffix("/metrics").removesuffix("/v1") + path

    def _headers(self) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json", **key}

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise KvdoctorError(f"{self.url} is no address of a server", "--url http://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname, parts.port, timeout=TIMEOUT_S)


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each `data:` line until the stream's end."""
    for line in response:
        text = line.strip()
        if text == b"data: [DONE]":
            return
        if text.startswith(b"data:"):
            try:
                found = json.loads(text[5:])
            except (ValueError, RecursionError):
                raise KvdoctorError("the server's stream holds no JSON", "is it an OpenAI server?") from None
            if isinstance(found, dict):
                yield found


def _timed(events: Iterator[dict[str, Any]], begin: float) -> Answer:
    """Take the time of the first event with text, and the usage of the last one that has it."""
    first: float | None = None
    usage: dict[str, Any] = {}
    for event in events:
        usage = _object(event.get("usage")) or usage
        choices = event.get("choices")
        told = choices if isinstance(choices, list) else ()
        if first is None and any(_object(choice).get("text") for choice in told):
            first = time.perf_counter() - begin
    total = time.perf_counter() - begin
    if first is None:
        raise KvdoctorError("the server's answer held no text", "ask for more tokens: --tokens 4")
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Answer(
        first, total, _count(usage.get("prompt_tokens")), cached, _count(usage.get("completion_tokens"))
    )


def _object(found: object) -> dict[str, Any]:
    """Return a JSON object; an empty one where there is something else."""
    return found if isinstance(found, dict) else {}


def _count(found: object) -> int | None:
    """Return a number of tokens; None for what is none."""
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
