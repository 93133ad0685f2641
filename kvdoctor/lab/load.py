"""`python -m kvdoctor.lab.load`: clients of an OpenAI-compatible server, and what each of their requests saw.

The wants are one line of JSON on standard input; it ends when that closes. Each finished request is one JSON line on
standard output: wall start, one offset per token, prompt and cached tokens, and the error of one that failed.
Requests that are under way at the end are written as far as they have come, with `cut`.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from kvdoctor.lab.tokenizer import WORDS
from kvdoctor.lab.wants import Group, Span, Wants, from_line

_TIMEOUT_S = 60.0
_RETRY_S = 0.2
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class Client:
    """One client, with a random stream of its own."""

    def __init__(
        self, wants: Wants, group: Group, name: str, prefixes: tuple[str, ...], began: float
    ) -> None:
        self.wants = wants
        self.group = group
        self.rng = random.Random(f"{wants.seed}/{name}")
        self.prefixes = prefixes
        self.began = began
        self.current: dict[str, object] | None = None
        """The record of the request under way."""
        self._turns: Iterator[str] = itertools.cycle(prefixes)

    def prompt(self) -> str:
        """A prompt of the group's kind."""
        group, tail = self.group, words(self.rng, self._whole(self.group.tail))
        if not group.prefixes:
            return f"{words(self.rng, group.prefix)} {tail}"
        text = next(self._turns) if group.in_turn else self.rng.choice(self.prefixes)
        if group.salted_after_s is not None and time.monotonic() - self.began >= group.salted_after_s:
            text = f"{self.rng.getrandbits(24):06x} {text}"
        return f"{text} {tail}"

    def ask(self) -> dict[str, object]:
        """One request, from prompt to record."""
        body = {
            "model": self.wants.model,
            "prompt": self.prompt(),
            "max_tokens": self._whole(self.group.outputs),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        start, zero = time.time(), time.monotonic()
        record: dict[str, object] = {"start": start, "token_s": [], "error": None}
        self.current = record
        try:
            self._stream(json.dumps(body).encode(), record, zero)
        except _FAILURES as failure:
            record["error"] = f"{type(failure).__name__}: {failure}"[:200]
        return record

    def run(self, out: threading.Lock) -> None:
        """Ask until the process ends."""
        while True:
            began = time.monotonic()
            record = self.ask()
            took = time.monotonic() - began
            with out:
                self.current = None
                _write(record)
            pause = self.rng.uniform(*self.group.pause_s) + self.group.pause_share * took
            time.sleep(pause + (_RETRY_S if record["error"] else 0.0))

    def _stream(self, body: bytes, record: dict[str, object], zero: float) -> None:
        """Send a request and note when each token came."""
        url = urlsplit(self.wants.url)
        connection = http.client.HTTPConnection(url.hostname or "127.0.0.1", url.port, timeout=_TIMEOUT_S)
        times: list[float] = []
        record["token_s"] = times
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/completions", body, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}")
            for line in response:
                if line.startswith(b"data: {"):
                    _note(json.loads(line[6:]), record, times, time.monotonic() - zero)
        finally:
            connection.close()

    def _whole(self, span: Span) -> int:
        return self.rng.randint(round(span[0]), round(span[1]))


def _write(record: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _note(event: dict[str, object], record: dict[str, object], times: list[float], at: float) -> None:
    """Take in one event."""
    if "error" in event:
        raise ValueError(f"error event: {event['error']}")
    if event.get("choices"):
        times.append(round(at, 6))
    elif isinstance(usage := event.get("usage"), dict):
        record["prompt_tokens"] = usage.get("prompt_tokens")
        details = usage.get("prompt_tokens_details")
        record["cached_tokens"] = details.get("cached_tokens") if isinstance(details, dict) else None


def words(rng: random.Random, count: int) -> str:
    """Random words, a token each."""
    return " ".join(rng.choices(WORDS, k=count))


def clients(wants: Wants) -> Iterator[Client]:
    """All clients of a load. Prefixes are a group's own; its clients begin at different ones."""
    began = time.monotonic()
    for number, group in enumerate(wants.groups):
        rng = random.Random(f"{wants.seed}/prefixes/{number}")
        prefixes = tuple(words(rng, group.prefix) for _ in range(group.prefixes))
        for client in range(group.clients):
            first = client * len(prefixes) // group.clients
            yield Client(wants, group, f"{number}/{client}", prefixes[first:] + prefixes[:first], began)


def main() -> None:
    """Start the clients; end with whoever started us."""
    out = threading.Lock()
    everybody = tuple(clients(from_line(sys.stdin.readline())))
    for client in everybody:
        threading.Thread(target=client.run, args=(out,), daemon=True).start()
    sys.stdin.read()
    out.acquire()  # for good: nobody writes after us
    for client in everybody:
        if client.current is not None:
            _write(client.current | {"cut": True})
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
