"""One streamed completion over HTTP: when its first token came, and what the server says it cached."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from kvdoctor.errors import KvdoctorError

TIMEOUT_S = 120.0
MAX_PAGE = 16 * 2**20
MAX_EVENT, MAX_STREAM = 2**20, 64 * 2**20
"""Bytes of one line of a stream, and of a whole stream: one of a few tokens is a few kilobytes."""


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
        with self._connection() as connection:
            connection.connect()  # the connection's own time is not the engine's
            begin = time.perf_counter()
            connection.request("POST", self._path("/v1/completions"), json.dumps(body), self._headers())
            with connection.getresponse() as response:
                if response.status != 200:
                    reason = f"{self.name} answers {response.status}"
                    raise KvdoctorError(reason, "does it serve /v1/completions?")
                return _timed(_events(response), begin)

    def model(self) -> str:
        """Return the first model that the server lists."""
        try:
            return str(json.loads(self.page("/v1/models"))["data"][0]["id"])
        except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
            raise KvdoctorError(f"{self.name} lists no model", "--served-model NAME") from error

    def page(self, path: str) -> str:
        """Return a page as text; empty where the server has none."""
        with self._connection() as connection:
            connection.request("GET", self._path(path), headers=self._headers())
            response = connection.getresponse()
            return response.read(MAX_PAGE).decode("utf-8", "replace") if response.status == 200 else ""

    @property
    def name(self) -> str:
        """The address without what may be a secret in it: user, password, query."""
        before, at, after = self.url.partition("?")[0].partition("#")[0].rpartition("@")
        scheme = before.partition("://")[0] + "://" if "://" in before else ""
        return f"{scheme}***@{after}" if at else after

    def _parts(self) -> SplitResult:
        try:
            parts = urlsplit(self.url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return parts
        except ValueError:
            pass
        raise KvdoctorError(f"{self.name} is no address of a server", "--url http://HOST:PORT")

    def _path(self, path: str) -> str:
        return self._parts().path.rstrip("/").removesuffix("/metrics").removesuffix("/v1") + path

    def _headers(self) -> dict[str, str]:
        """The key goes before a name and a password in the address."""
        if not self.key.isascii() or (self.key and not self.key.isprintable()):
            raise KvdoctorError(
                "the API key holds characters that no header may", "set KVDOCTOR_API_KEY again"
            )
        user = self._parts().netloc.rpartition("@")[0]
        basic = "Basic " + base64.b64encode(unquote_to_bytes(user)).decode() if user else ""
        sent = f"Bearer {self.key}" if self.key else basic
        return {"Content-Type": "application/json", **({"Authorization": sent} if sent else {})}

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection for one request; what goes wrong on it becomes a KvdoctorError."""
        parts = self._parts()
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            yield connection
        except OSError as error:
            raise KvdoctorError(f"{self.name}: {error}", "check the URL") from error
        except (http.client.InvalidURL, UnicodeError) as error:
            raise KvdoctorError(f"{self.name} is no address of a server", "--url http://HOST:PORT") from error
        except http.client.HTTPException as error:
            raise KvdoctorError(
                f"what answers at {self.name} does not speak HTTP as it should",
                "is it the API server's port?",
            ) from error
        finally:
            connection.close()


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the lines of a stream, within its limits of bytes; the probe's own limit is one of time."""
    total = 0
    while line := response.readline(MAX_EVENT + 1):
        total += len(line)
        if len(line) > MAX_EVENT or total > MAX_STREAM:
            raise KvdoctorError("the server's stream does not end", "is it an OpenAI server?")
        yield line


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each `data:` line until the stream's end."""
    for line in _lines(response):
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
