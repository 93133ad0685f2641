"""One real prompt as a miss, as the request that fills the cache, and five times as a hit.

Footprint: seven requests of the prompt and a few output tokens each; at most two minutes. The prompt is read from its
file, sent, and kept nowhere.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.sse import Answer, Server
from kvdoctor.probes.timing import latency

HITS = 5
TOKENS = 4
SECONDS = 120.0
LARGEST = 4 * 2**20
"""Bytes of the prompt's file."""
PLAIN = "--prompt-file FILE of plain text in UTF-8"
ENDINGS = ("_sum", "_count", "_total")
"""How the names of counters end that are worth comparing: they only rise, and one request adds to them."""
SETTINGS = re.compile(r"^(\w+(?::\w+)*config_info)\{(.*)\} ", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked for. The key comes from the environment, so that no request file holds it."""

    url: str = ""
    prompt_file: str = ""
    model: str = ""
    tokens: int = TOKENS
    metrics: str = "/metrics"
    """Path of the engine's own counters; empty reads none."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    size = Path(options.prompt_file).stat().st_size if os.path.isfile(options.prompt_file) else 0
    return Footprint(SECONDS, moved_bytes=(HITS + 2) * size, loads="the service itself: seven real requests")


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Send the prompt seven times and return what each took and what the engine counted."""
    server = Server(options.url, os.environ.get("KVDOCTOR_API_KEY", ""))
    prompt = _prompt(options.prompt_file)
    model = options.model or server.model()
    asked = _Asked(server, model, options)
    tell("a miss: the prompt behind a fresh first token", 0.0)
    miss = asked.once(f"{os.urandom(6).hex()} {prompt}")
    tell("filling the cache with the prompt", 0.15)
    fill = asked.once(prompt)
    hits = []
    for number in range(HITS):
        tell(f"hit {number + 1} of {HITS}", 0.3 + 0.7 * number / HITS)
        hits.append(asked.once(prompt))
    return {
        "probe": "request",
        "measures": "one prompt, as a miss and as a hit",
        "device": server.name,
        "rows": [_row("miss", [miss]), _row("fill", [fill]), _row("hit", hits)],
        "settings": settings(server.page(options.metrics)) if options.metrics else {},
        "conditions": {"model": model, "output_tokens": options.tokens, "hits": HITS},
    }


def _prompt(path: str) -> str:
    """Read the prompt as it is, line ends included; KvdoctorError where there is none."""
    try:
        if not os.path.isfile(path) and os.path.exists(path):
            raise KvdoctorError(f"{path} is no file", PLAIN)
        if (size := os.path.getsize(path)) > LARGEST:
            raise KvdoctorError(
                f"{path} holds {size / 2**20:,.0f} MiB, and a prompt is {LARGEST // 2**20} MiB at most",
                "--prompt-file of one prompt, as the service gets it",
            )
        data = Path(path).read_bytes()
    except OSError as error:
        raise KvdoctorError(f"{path} cannot be read: {error.strerror}", PLAIN) from error
    return _text(path, data)


def _text(path: str, data: bytes) -> str:
    """Return the text of a file; KvdoctorError for what is no prompt, which is told without its content."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise KvdoctorError(f"{path} is UTF-16", _converted("UTF-16", path))
    if b"\0" in data:
        raise KvdoctorError(f"{path} is binary: it holds zero bytes", PLAIN)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KvdoctorError(
            f"{path} is not UTF-8: byte {error.start} begins no letter",
            f"if it is Latin-1: {_converted('LATIN1', path)}",
        ) from error
    if not text.strip():
        what = "holds nothing but white space" if text else "is empty"
        raise KvdoctorError(f"{path} {what}", "--prompt-file of a prompt that the service sees often")
    return text


def _converted(kind: str, path: str) -> str:
    """Return the command that makes a new file of a prompt in another encoding."""
    return f"iconv -f {kind} -t UTF-8 {shlex.quote(path)} > {shlex.quote(path + '.utf8')}"


@dataclass(frozen=True, slots=True)
class _Once:
    """One request, at the client and in the engine's counters."""

    answer: Answer
    counted: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Sends requests and reads the counters around each."""

    server: Server
    model: str
    options: Options

    def once(self, prompt: str) -> _Once:
        before = self._counters()
        answer = self.server.complete(prompt, model=self.model, tokens=self.options.tokens)
        after = self._counters()
        return _Once(answer, {name: after[name] - before.get(name, 0.0) for name in after})

    def _counters(self) -> dict[str, float]:
        return counters(self.server.page(self.options.metrics)) if self.options.metrics else {}


def counters(page: str) -> dict[str, float]:
    """Return the counters of a Prometheus page by name, summed over their labels."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        head, _, value = line.rstrip().rpartition(" ")
        name = head.partition("{")[0]
        if line.startswith("#") or not name.endswith(ENDINGS):
            continue
        try:
            found[name] = found.get(name, 0.0) + float(value)
        except ValueError:
            continue
    return found


def settings(page: str) -> dict[str, dict[str, str]]:
    """Return the labels of families by which an engine tells its settings, by the family's name."""
    return {found[1]: dict(LABEL.findall(found[2])) for found in SETTINGS.finditer(page)}


def _row(op: str, asked: list[_Once]) -> dict[str, Any]:
    """Return one row: TTFT at the client, cached tokens as the server says, what its counters rose by a request.

    `counted` is the mean of those that rose, `counted_each` what all of them rose in each request.
    """
    times = [each.answer.ttft_s for each in asked]
    first = asked[0].answer
    names = sorted({name for each in asked for name, rise in each.counted.items() if rise})
    return {
        "op": op,
        "ttft_seconds": statistics.median(times),
        "latency_seconds": latency(times),
        "repeats": times,
        "prompt_tokens": first.prompt_tokens,
        "cached_tokens": [each.answer.cached_tokens for each in asked],
        "counted": {name: sum(each.counted.get(name, 0.0) for each in asked) / len(asked) for name in names},
        "counted_each": [each.counted for each in asked],
        "conditions": {"requests": len(asked)},
    }
