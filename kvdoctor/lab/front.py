"""The front end: tokenizes, sends requests to the engine core, and takes its reports in."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from kvdoctor.lab.counting import Life, Metrics
from kvdoctor.lab.messages import Ask, Drop, Ready, Refused, Report, Update
from kvdoctor.lab.tokenizer import Tokenizer


class Refusal(Exception):
    """The engine core does not take a request; the message is for the client."""


@dataclass(slots=True)
class Open:
    """A request that is not finished."""

    life: Life
    updates: asyncio.Queue[Update | Refused | None] = field(default_factory=asyncio.Queue)


class Front:
    """One front end of one engine core. All methods but `listen` run in the event loop."""

    def __init__(self, link: Connection, tokenizer: Tokenizer, metrics: Metrics) -> None:
        self.link = link
        self.tokenizer = tokenizer
        self.metrics = metrics
        self.ready = asyncio.Event()
        self.gone = False
        self._open: dict[str, Open] = {}
        self._numbers = itertools.count()
        # One thread, so that the event loop answers others while a long prompt is tokenized.
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread that reads what the engine core sends."""
        threading.Thread(target=self._read, args=(loop,), name="core-client", daemon=True).start()

    async def generate(
        self, prompt: str | Sequence[int], max_tokens: int, arrival: float
    ) -> AsyncIterator[tuple[Update, Life]]:
        """Updates of one request. Raises Refusal where it can never run, or the core has gone."""
        tokens = await self._encode(prompt) if isinstance(prompt, str) else list(prompt)
        name = f"cmpl-{next(self._numbers)}"
        entry = self._open[name] = Open(Life(arrival, len(tokens)))
        try:
            if self.gone:
                raise Refusal("the engine core has ended")
            self.link.send(Ask(name, tuple(tokens), max_tokens))
            reason = ""
            while not reason:
                update = await entry.updates.get()
                if not isinstance(update, Update):
                    raise Refusal(update.reason if update else "the engine core has ended")
                reason = update.reason
                yield update, entry.life
        finally:
            if self._open.pop(name, None) and not self.gone:
                self.link.send(Drop(name))

    def take(self, message: Ready | Report | Refused | None) -> None:
        """Take in what the engine core sent; None for its end."""
        now = time.monotonic()
        if isinstance(message, Ready):
            self.metrics.families.tell_config(message.labels)
            self.ready.set()
        elif isinstance(message, Refused):
            self._give(message.name, message)
        elif isinstance(message, Report):
            self.metrics.report(message)
            for update in message.updates:
                self._update(update, now)
        else:
            self.gone = True
            for entry in self._open.values():
                entry.updates.put_nowait(None)

    async def _encode(self, text: str) -> list[int]:
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, self.tokenizer.encode, text)

    def _update(self, update: Update, now: float) -> None:
        entry = self._open.get(update.name)
        if entry is None:
            return
        self.metrics.update(update, entry.life, now)
        entry.updates.put_nowait(update)
        if update.reason:
            del self._open[update.name]

    def _give(self, name: str, message: Refused) -> None:
        entry = self._open.pop(name, None)
        if entry:
            entry.updates.put_nowait(message)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand every message to the event loop until the other side has gone."""
        try:
            while True:
                loop.call_soon_threadsafe(self.take, self.link.recv())
        except (EOFError, OSError):
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.take, None)
