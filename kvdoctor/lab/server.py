"""`python -m kvdoctor.lab.server`: the reference engine behind an OpenAI-compatible API."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection

from kvdoctor.lab import leftovers
from kvdoctor.lab.settings import Settings, from_line

_END_S = 5.0
"""How long the engine core may take to end."""
_GRACE_S = 1
"""How long open connections may take to end."""


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The options: the usual ones, and none that says how the engine is set up."""
    parser = argparse.ArgumentParser(
        prog="python -m kvdoctor.lab.server",
        description="The reference engine behind an OpenAI-compatible API. Settings are one line of JSON on "
        "standard input where that is a pipe; the server ends when it is closed.",
    )
    parser.add_argument("--model", required=True, help="folder with a config.json; weights are random")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="lab")
    return parser.parse_args(words)


def has_parent() -> bool:
    """Whether standard input is a pipe: then somebody sends settings, and we end when it closes."""
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False


def end_with_stdin(end: Callable[[], None]) -> None:
    """Call `end` when standard input closes, and leave for good where that does not help."""
    select.select([0], [], [])
    end()
    time.sleep(2 * _END_S)
    leftovers.sweep()
    os._exit(1)


@contextlib.contextmanager
def engine_core(settings: Settings, folder: str) -> Iterator[Connection]:
    """The engine core in a process of its own, and our end of the socket between us."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen([sys.executable, "-m", "kvdoctor.lab.core"], stdin=theirs.fileno())
        link = Connection(os.dup(ours.fileno()))
        try:
            link.send((settings, folder))
            yield link
        finally:
            # Closing alone would not end a read that another thread is in.
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
            _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(options: argparse.Namespace, settings: Settings, link: Connection) -> None:
    """Serve HTTP until a signal."""
    import uvicorn
    from prometheus_client import disable_created_metrics

    from kvdoctor.lab.app import Pages
    from kvdoctor.lab.counting import Metrics
    from kvdoctor.lab.front import Front
    from kvdoctor.lab.tokenizer import Tokenizer

    disable_created_metrics()  # type: ignore[no-untyped-call]
    tokenizer = Tokenizer(seconds_a_thousand=settings.tokenizing_s)
    metrics = Metrics(options.served_model_name, {tier.kind for tier in settings.tiers})
    front = Front(link, tokenizer, metrics)
    app = Pages(front, options.served_model_name).app()

    @contextlib.asynccontextmanager
    async def started(_: object) -> AsyncIterator[None]:
        front.listen(asyncio.get_running_loop())
        yield

    app.router.lifespan_context = started
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = uvicorn.Server(config)
    if has_parent():
        end = partial(setattr, server, "should_exit", True)
        threading.Thread(target=end_with_stdin, args=(end,), name="parent", daemon=True).start()
    server.run()


def main() -> None:
    """Start the engine core, then the front end; in the end clear up after a parent that was killed."""
    options = arguments()
    try:
        settings = from_line(sys.stdin.readline()) if has_parent() else Settings()
        with engine_core(settings, options.model) as link:
            serve(options, settings, link)
    finally:
        if has_parent():
            leftovers.sweep()


if __name__ == "__main__":
    main()
