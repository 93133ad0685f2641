"""The HTTP pages: /v1/completions, /v1/models, /health, /metrics and /version, as OpenAI clients expect them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kvdoctor import __version__
from kvdoctor.lab.counting import Life
from kvdoctor.lab.front import Front, Refusal
from kvdoctor.lab.messages import Update

MOST_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Wish:
    """A completion as it was asked for."""

    prompt: str | list[int]
    max_tokens: int
    stream: bool
    usage: bool
    """A last event with the usage."""
    each: bool
    """The usage in every event."""


def wish_of(body: Any) -> Wish:
    """Read a request's body. Raises ValueError with the reason for the client."""
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    prompt, count, options = body.get("prompt"), body.get("max_tokens"), body.get("stream_options")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    is_ids = isinstance(prompt, list) and all(isinstance(token, int) and token >= 0 for token in prompt)
    if not prompt or not (isinstance(prompt, str) or is_ids):
        raise ValueError("`prompt` must be a text or a list of token ids")
    count = MOST_TOKENS if count is None else count
    if not isinstance(count, int) or count < 1:
        raise ValueError("`max_tokens` must be at least 1")
    options = options if isinstance(options, dict) else {}
    return Wish(
        prompt,
        count,
        bool(body.get("stream")),
        bool(options.get("include_usage")),
        bool(options.get("continuous_usage_stats")),
    )


def usage_of(life: Life) -> dict[str, object]:
    """The `usage` object."""
    return {
        "prompt_tokens": life.prompt,
        "completion_tokens": life.tokens,
        "total_tokens": life.prompt + life.tokens,
        "prompt_tokens_details": {"cached_tokens": life.cached},
    }


class Pages:
    """The pages of one server."""

    def __init__(self, front: Front, model: str) -> None:
        self.front = front
        self.model = model

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/completions", self.completions, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/health", self.health),
                Route("/metrics", self.metrics),
                Route("/version", self.version),
            ]
        )

    async def health(self, request: Request) -> Response:
        """200 while the engine core runs."""
        return Response(status_code=200 if self.front.ready.is_set() and not self.front.gone else 503)

    async def metrics(self, request: Request) -> Response:
        """The metrics."""
        return Response(generate_latest(self.front.metrics.make.registry), media_type=CONTENT_TYPE_LATEST)

    async def version(self, request: Request) -> Response:
        """The version."""
        return JSONResponse({"version": __version__})

    async def models(self, request: Request) -> Response:
        """The one model."""
        entry = {"id": self.model, "object": "model", "owned_by": "kvdoctor", "root": self.model}
        return JSONResponse({"object": "list", "data": [entry]})

    async def completions(self, request: Request) -> Response:
        """Complete a prompt, streaming or at once."""
        arrival = time.monotonic()
        try:
            wish = wish_of(await request.json())
        except (ValueError, JSONDecodeError) as error:
            return self._refused(str(error), 400)
        updates = self.front.generate(wish.prompt, wish.max_tokens, arrival)
        if wish.stream:
            return StreamingResponse(self._events(updates, wish), media_type="text/event-stream")
        try:
            found = [pair async for pair in updates]
        except Refusal as error:
            return self._refused(str(error), 400)
        text, (last, life) = "".join(self._piece(update) for update, _ in found), found[-1]
        return JSONResponse(self._body(text, last.reason) | {"usage": usage_of(life)})

    async def _events(self, updates: AsyncIterator[tuple[Update, Life]], wish: Wish) -> AsyncIterator[str]:
        try:
            async for update, life in updates:
                body = self._body(self._piece(update), update.reason)
                yield _event(body | ({"usage": usage_of(life)} if wish.each else {}))
        except Refusal as error:
            yield _event({"error": {"message": str(error), "type": "invalid_request_error"}})
        else:
            if wish.usage:
                yield _event(self._body("", "") | {"choices": [], "usage": usage_of(life)})
        yield "data: [DONE]\n\n"

    def _piece(self, update: Update) -> str:
        return "" if update.token is None else self.front.tokenizer.piece(update.token)

    def _body(self, text: str, reason: str) -> dict[str, object]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason or None}
        return {"object": "text_completion", "model": self.model, "choices": [choice]}

    def _refused(self, reason: str, status: int) -> Response:
        return JSONResponse({"error": {"message": reason, "type": "invalid_request_error"}}, status)


def _event(body: dict[str, object]) -> str:
    return f"data: {json.dumps(body)}\n\n"
