"""One streamed completion over HTTP: when its first token came, and what the server says it cached."""

from __future__ import annotations

import base64
import http.client
import json
import re
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
TOO_LONG = (400, 413, 422)
LENGTH = re.compile(
    rb"context.{0,20}length|too long|too large|maximum.{0,20}(length|tokens)|exceeds?", re.IGNORECASE
)
"""How servers say in the body of such an answer that a prompt does not fit."""
SERVES = "does it serve /v1/completions, and the model that --served-model names?"
CURES = {
    401: "set KVDOCTOR_API_KEY to a key that it takes",
    403: "set KVDOCTOR_API_KEY to a key that it takes",
    429: "probe when it is less busy",
    503: "probe when it is less busy",
}
"""By the status of the answer."""


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
                    raise _refusal(self.name, response)
                return _timed(_events(response), begin, tokens)

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


def _refusal(name: str, response: http.client.HTTPResponse) -> KvdoctorError:
    """Say what a server answers instead, with the cure; its own words may repeat the prompt, so they stay out."""
    said = response.read(MAX_PAGE)
    if response.status in TOO_LONG and (response.status == 413 or LENGTH.search(said)):
        return KvdoctorError(
            f"{name} answers {response.status}: the prompt is longer than it takes",
            "--prompt-file of a shorter one: the model's context less --tokens",
        )
    cure = CURES.get(response.status, "the server's log says why" if response.status >= 500 else SERVES)
    return KvdoctorError(f"{name} answers {response.status}", cure)


def _timed(events: Iterator[dict[str, Any]], begin: float, tokens: int) -> Answer:
    """Take the time of the first event with text, and the usage of the last one that has it.

    Tokens may be no text, such as a byte of a letter: where none is, and each event is a token, the first event counts.
    """
    first: float | None = None
    usage: dict[str, Any] = {}
    times: list[float] = []
    for event in events:
        usage = _object(event.get("usage")) or usage
        choices = event.get("choices")
        told = choices if isinstance(choices, list) else ()
        if told:
            times.append(time.perf_counter() - begin)
        if first is None and any(_object(choice).get("text") for choice in told):
            first = time.perf_counter() - begin
    total = time.perf_counter() - begin
    made = _count(usage.get("completion_tokens"))
    if first is None and times and len(times) == made:
        first = times[0]
    if first is None:
        raise _no_text(made, tokens)
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Answer(first, total, _count(usage.get("prompt_tokens")), cached, made)


def _no_text(made: int | None, tokens: int) -> KvdoctorError:
    """Say that an answer held no text, and what gives one: more tokens only where all that were asked for came."""
    if made is not None and made >= tokens:
        return KvdoctorError(
            f"the server's answer held no text in {made} tokens",
            f"ask for more of them: --tokens {4 * tokens}",
        )
    return KvdoctorError(
        "the server's answer held no text: the model ended it at once",
        "--prompt-file of one that it goes on from",
    )


def _object(found: object) -> dict[str, Any]:
    """Return a JSON object; an empty one where there is something else."""
    return found if isinstance(found, dict) else {}


def _count(found: object) -> int | None:
    """Return a number of tokens; None for what is none."""
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
