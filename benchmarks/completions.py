"""One streamed completion, timed token by token as the client sees it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where the requests go."""

    host: str
    port: int
    path: str
    model: str


@dataclass(slots=True)
class Record:
    """One request as the client saw it. Offsets are seconds since `start`; prompts are only counted."""

    client: int
    start: float
    start_monotonic: float
    prompt_chars: int
    max_tokens: int
    late_s: float = 0.0  # open loop: how long after its due time the request was sent
    headers_s: float | None = None
    first_text_s: float | None = None
    token_s: list[float] = field(default_factory=list)
    end_s: float = 0.0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    engine_queue_s: float | None = None
    engine_prefill_s: float | None = None
    engine_decode_s: float | None = None
    error: str | None = None


def events(response: http.client.HTTPResponse) -> Iterator[tuple[float, dict[str, object]]]:
    """Each server-sent event with the monotonic time its line was read."""
    for line in response:
        at = time.monotonic()
        if line.startswith(b"data: {"):
            yield at, json.loads(line[len(b"data: ") :])
        elif line.startswith(b"data: [DONE]"):
            return
    raise ValueError("the stream ended before [DONE]")


def number(fields: object, name: str) -> float | None:
    value = fields.get(name) if isinstance(fields, dict) else None
    return float(value) if isinstance(value, (int, float)) else None


def note_event(record: Record, offset_s: float, event: dict[str, object]) -> None:
    """Add the tokens of one event; a server that does not count them gets one token an event."""
    if "error" in event:
        raise ValueError(f"error event: {str(event['error'])[:200]}")
    choices, usage = event.get("choices"), event.get("usage")
    if isinstance(choices, list) and choices:
        count = number(usage, "completion_tokens")
        new = 1 if count is None else int(count) - len(record.token_s)
        record.token_s.extend([round(offset_s, 6)] * max(0, new))
        if record.first_text_s is None and choices[0].get("text"):
            record.first_text_s = round(offset_s, 6)
    elif usage:
        note_usage(record, usage, event.get("metrics"))


def note_usage(record: Record, usage: object, metrics: object) -> None:
    """Keep what the last event says of prompt, cached tokens and the engine's own times."""
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    prompt_tokens, cached = number(usage, "prompt_tokens"), number(details, "cached_tokens")
    record.prompt_tokens = None if prompt_tokens is None else int(prompt_tokens)
    record.cached_tokens = None if cached is None else int(cached)
    record.engine_queue_s = seconds(metrics, "queue_time_ms")
    record.engine_prefill_s = seconds(metrics, "time_to_first_token_ms")  # vLLM: scheduled to first token
    record.engine_decode_s = seconds(metrics, "generation_time_ms")


def seconds(metrics: object, name: str) -> float | None:
    value = number(metrics, name)
    return None if value is None else round(value / 1e3, 6)


def stream(target: Target, record: Record, text: str) -> None:
    """Send one request and read its answer to the end, noting times as the events arrive."""
    body = {
        "model": target.model,
        "prompt": text,
        "max_tokens": record.max_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    connection = http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_S)
    try:
        connection.request(
            "POST", target.path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        response = connection.getresponse()
        record.headers_s = round(time.monotonic() - record.start_monotonic, 6)
        if response.status != 200:
            raise ValueError(f"HTTP {response.status}")
        for at, event in events(response):
            note_event(record, at - record.start_monotonic, event)
    finally:
        connection.close()
