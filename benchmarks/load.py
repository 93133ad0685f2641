"""Drive an OpenAI-compatible completions endpoint and keep the truth of every request.

Each finished request becomes one JSON line of --out: wall and monotonic start, one offset per output token
(tokens that came in one event share its offset), what the engine says of its own queue and prefill where it
says so (vLLM: --enable-per-request-metrics --enable-prompt-tokens-details), and the error if it failed.
Prompts are random words and are never stored. The last line on stdout is a summary. Standard library only.

    python -m benchmarks.load http://127.0.0.1:8000 tiny --concurrency 4 --prefix salted --out f.jsonl
    python -m benchmarks.load http://127.0.0.1:8000 tiny --rate 20 --prefix none --out f.jsonl
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import sys
import threading
import time
from dataclasses import asdict
from typing import TextIO
from urllib.parse import urlsplit

from benchmarks.completions import Record, Target, stream
from benchmarks.prompts import PREFIXES, Shape, prompt, words
from benchmarks.truth import spread

RETRY_PAUSE_S = 0.2  # after a failed request, so that a dead engine is not hammered
TICK_S, STALL_S = (
    0.005,
    0.020,
)  # a tick this late means that this process got no CPU: its times are then late too
FAILURES = (OSError, http.client.HTTPException, ValueError)


class Ledger:
    """All records so far, and the file they are written to as they finish."""

    def __init__(self, out: TextIO | None) -> None:
        self.records: list[Record] = []
        self._out = out
        self._lock = threading.Lock()

    def add(self, record: Record) -> None:
        line = json.dumps(asdict(record), separators=(",", ":"))
        with self._lock:
            self.records.append(record)
            if self._out:
                self._out.write(line + "\n")
                self._out.flush()


def request(
    target: Target, shape: Shape, rng: random.Random, *, client: int, elapsed_s: float, late_s: float
) -> Record:
    """One request from prompt to record; a failure is a record with an error."""
    text = prompt(shape, rng, elapsed_s)
    limit = rng.randint(*shape.max_tokens)
    record = Record(client, time.time(), time.monotonic(), len(text), limit, late_s=round(late_s, 6))
    try:
        stream(target, record, text)
    except FAILURES as failure:
        record.error = f"{type(failure).__name__}: {failure}"[:300]
    record.end_s = round(time.monotonic() - record.start_monotonic, 6)
    return record


def client_loop(
    target: Target, shape: Shape, ledger: Ledger, *, client: int, seed: int, run_s: float, pause_s: float
) -> None:
    """Closed loop: ask, wait for the whole answer, pause, ask again."""
    rng, began = random.Random(f"{seed}/{client}"), time.monotonic()
    while (elapsed := time.monotonic() - began) < run_s:
        record = request(target, shape, rng, client=client, elapsed_s=elapsed, late_s=0.0)
        ledger.add(record)
        time.sleep(pause_s + (RETRY_PAUSE_S if record.error else 0.0))


def closed_loop(
    target: Target, shape: Shape, ledger: Ledger, *, clients: int, seed: int, run_s: float, pause_s: float
) -> None:
    """`clients` loops at once, until each has finished its last request."""
    options = {"seed": seed, "run_s": run_s, "pause_s": pause_s}
    threads = [
        threading.Thread(
            target=client_loop, args=(target, shape, ledger), kwargs={"client": n, **options}, daemon=True
        )
        for n in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_loop(target: Target, shape: Shape, ledger: Ledger, *, rate: float, seed: int, run_s: float) -> None:
    """Poisson arrivals: a request is sent when it is due, however many are still unanswered."""
    rng, began, due = random.Random(f"{seed}/arrivals"), time.monotonic(), 0.0
    threads: list[threading.Thread] = []
    while (due := due + rng.expovariate(rate)) < run_s:
        time.sleep(max(0.0, began + due - time.monotonic()))
        arrival = threading.Thread(
            target=arrive,
            args=(target, shape, ledger, random.Random(f"{seed}/{len(threads)}")),
            kwargs={"client": len(threads), "due": began + due, "elapsed_s": due},
            daemon=True,
        )
        arrival.start()
        threads.append(arrival)
    for arrival in threads:
        arrival.join()


def arrive(
    target: Target,
    shape: Shape,
    ledger: Ledger,
    rng: random.Random,
    *,
    client: int,
    due: float,
    elapsed_s: float,
) -> None:
    late_s = time.monotonic() - due
    ledger.add(request(target, shape, rng, client=client, elapsed_s=elapsed_s, late_s=late_s))


def summary(records: list[Record], elapsed_s: float, stalls: list[float]) -> dict[str, object]:
    """Rates, and the spread of TTFT and ITL over all requests that gave a token."""
    gaps = [b - a for r in records for a, b in zip(r.token_s, r.token_s[1:], strict=False)]
    return {
        "requests": sum(1 for r in records if r.error is None),
        "errors": sum(1 for r in records if r.error is not None),
        "seconds": round(elapsed_s, 3),
        "requests_per_s": round(len(records) / elapsed_s, 3),
        "tokens_per_s": round(sum(len(r.token_s) for r in records) / elapsed_s, 2),
        "ttft": spread([r.token_s[0] for r in records if r.token_s]),
        "itl": spread(gaps),
        "client_stalls": {"count": len(stalls), "seconds": round(sum(stalls), 3)},
    }


def span(text: str) -> tuple[int, int]:
    """`20` or `10:40`, as the least and the most."""
    low, _, high = text.partition(":")
    return int(low), int(high or low)


def watch_self(stop: threading.Event, stalls: list[float]) -> None:
    """Note every wait of this process for a CPU, until told to stop."""
    while not stop.is_set():
        due = time.monotonic() + TICK_S
        time.sleep(TICK_S)
        if (late_s := time.monotonic() - due) > STALL_S:
            stalls.append(late_s)


def take_realtime_priority() -> None:
    """Run before everybody else on this machine (Linux, root): an engine here must not delay us."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--concurrency", type=int, default=1, help="closed loop: clients that ask in turn")
    parser.add_argument("--pause", type=float, default=0.0, help="closed loop: seconds between requests")
    parser.add_argument("--rate", type=float, help="open loop instead: mean arrivals per second, Poisson")
    parser.add_argument("--prefix", choices=PREFIXES, default="shared")
    parser.add_argument("--fell-after", type=float, default=25.0, help="seconds for which `fell` is shared")
    parser.add_argument("--pools", type=int, default=1, help="how many different shared prefixes")
    parser.add_argument("--prefix-words", type=int, default=300)
    parser.add_argument("--tail-words", type=span, default=(20, 20), help="N or LOW:HIGH")
    parser.add_argument("--max-tokens", type=span, default=(32, 32), help="N or LOW:HIGH")
    parser.add_argument("--realtime", action="store_true", help="real-time priority, beside an engine (root)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", help="JSON lines, one a request")
    return parser.parse_args()


def shape_of(options: argparse.Namespace) -> Shape:
    rng = random.Random(f"{options.seed}/pools")
    return Shape(
        options.prefix,
        tuple(words(rng, options.prefix_words) for _ in range(options.pools)),
        options.prefix_words,
        options.tail_words,
        options.max_tokens,
        options.fell_after,
    )


def drive(options: argparse.Namespace, ledger: Ledger) -> None:
    url = urlsplit(options.url)
    target = Target(url.hostname or "127.0.0.1", url.port or 80, f"{url.path}/v1/completions", options.model)
    shape, common = shape_of(options), {"seed": options.seed, "run_s": options.seconds}
    if options.rate:
        open_loop(target, shape, ledger, rate=options.rate, **common)
    else:
        clients, pause_s = options.concurrency, options.pause
        closed_loop(target, shape, ledger, clients=clients, pause_s=pause_s, **common)


def main() -> None:
    options = arguments()
    if options.realtime:
        take_realtime_priority()
    out = open(options.out, "w", encoding="utf-8") if options.out else None  # noqa: SIM115
    began, ledger, stop = time.monotonic(), Ledger(out), threading.Event()
    stalls: list[float] = []
    threading.Thread(target=watch_self, args=(stop, stalls), daemon=True).start()
    try:
        drive(options, ledger)
    except KeyboardInterrupt:
        print("stopped; requests under way are not counted", file=sys.stderr)
    finally:
        stop.set()
        if out:
            out.close()
        print(json.dumps(summary(ledger.records, time.monotonic() - began, stalls)))


if __name__ == "__main__":
    main()
