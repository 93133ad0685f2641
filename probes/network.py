"""Messages to a peer: bandwidth with one stream and with many, by message size, and the latency's tail.

Footprint: some MiB of memory, up to about 45 seconds of the link between both ends.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import child, store, stream
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.serve import is_loopback
from kvdoctor.probes.timing import Row, percentile

KIB, MIB = 2**10, 2**20
MESSAGES = (64 * KIB, MIB, 16 * MIB)
PINGS = (64, 64 * KIB, MIB)
STREAMS = 4
TRANSFER_S, WARM_S = 1.0, 0.4
"""Seconds; a stream on loopback still gains after 0.2 s, while TCP's window grows."""
REPEATS = 3
PING_S, MOST_PINGS = 0.6, 2000
SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    host: str = ""
    """The peer; empty starts one on loopback."""
    port: int = 0
    streams: int = STREAMS
    messages: tuple[int, ...] = MESSAGES
    seconds: float = TRANSFER_S
    """Of one transfer."""
    blocks: tuple[int, ...] = ()
    """Sizes of KV objects for a store; 1 MiB and 4 MiB where none is given."""
    others: bool = True
    """Also measure through gloo and a Mooncake store where they are there."""
    mooncake: str = ""
    """host:port of a Mooncake master, and of its metadata server behind a comma."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    transfers = 2 * (len(options.messages) + 1) * REPEATS
    client = store.buffer_bytes(options.blocks) if options.mooncake else 0
    return Footprint(
        transfers * (options.seconds + 0.5) + len(PINGS) * PING_S + 5.0,
        host_bytes=(options.streams + 2) * 2 * max(options.messages) + client,
        loads="the link to the peer and a processor at each end",
    )


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Measure the way to the peer; KvdoctorError where it does not answer."""
    with _peer(options) as (host, port):
        try:
            return _Client(host, port, options, tell).result()
        except OSError as error:
            raise KvdoctorError(
                f"{host}:{port}: {error.strerror or error}", "is the peer still there?"
            ) from error


@contextmanager
def _peer(options: Options) -> Iterator[tuple[str, int]]:
    """Return the peer's address; without one, start it here as a process of its own and end it afterwards."""
    if options.host:
        yield options.host, options.port
        return
    code = f"{child.BOOT_PACKAGE}\nfrom kvdoctor.probes import network\nnetwork.serve_once()"
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", code, child.package_folder()],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        first = process.stdout.readline() if process.stdout else b""
        if not first.strip().isdigit():
            raise KvdoctorError("the peer on this machine did not start", "is loopback up? ip link set lo up")
        yield "127.0.0.1", int(first)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def serve_once() -> None:
    """Be the peer on loopback, until the one who started us is gone."""
    from kvdoctor.probes.serve import Place, listen, serve

    place, gone = Place(seconds=SECONDS + 60.0), threading.Event()
    server = listen(place)
    sys.stdout.write(f"{server.getsockname()[1]}\n")
    sys.stdout.flush()

    def watch() -> None:
        while os.read(0, 1):
            pass
        gone.set()

    threading.Thread(target=watch, daemon=True).start()
    serve(server, place, gone.is_set)


class _Client:
    """The measuring end."""

    def __init__(self, host: str, port: int, options: Options, tell: Tell) -> None:
        self.host, self.port, self.options, self.tell = host, port, options, tell

    def result(self) -> dict[str, Any]:
        """Measure everything and return the JSON object."""
        local = is_loopback(self.host)
        plans: list[tuple[str, Callable[[], Row]]] = [
            (f"messages of {size} bytes", _later(self._ping, size)) for size in PINGS
        ]
        shapes = [(size, 1) for size in self.options.messages] + [(MIB, self.options.streams)]
        for size, streams in shapes:
            for way in ("to peer", "from peer"):
                plans.append(
                    (f"{streams} x {size // KIB} KiB {way}", _later(self._transfer, size, streams, way))
                )
        rows = []
        for done, (says, measure_row) in enumerate(plans):
            self.tell(says, done / len(plans))
            rows.append(measure_row())
        extra, gaps = self._other_transports(local) if self.options.others else ([], [])
        rows += extra
        return {
            "probe": "network",
            "measures": "loopback, which is this machine's memory and no network"
            if local
            else "TCP to the peer",
            "device": f"{self.host}:{self.port}",
            "rows": [row.as_dict() for row in rows],
            "gaps": gaps,
            "conditions": {
                "transport": "TCP, one process at each end, a thread for each stream",
                "counts": "payload, where it arrives",
                "loopback": local,
            },
        }

    def _other_transports(self, local: bool) -> tuple[list[Row], list[dict[str, str]]]:
        """Measure through torch's gloo and a Mooncake store where they are there; else say why not."""
        from kvdoctor.probes import gloo

        others: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
            ("gloo", lambda: gloo.rows(local)),
            ("Mooncake", lambda: store.rows(self.options.mooncake, self.options.blocks)),
        )
        rows: list[Row] = []
        gaps: list[dict[str, str]] = []
        for name, measure_rows in others:
            self.tell(name, 0.95)
            try:
                rows += measure_rows()
            except Unavailable as absent:
                gaps.append({"source": name, "reason": absent.reason, "cure": absent.cure})
        return rows, gaps

    def _join(self) -> stream.Line:
        return stream.join(self.host, self.port, os.environ.get("KVDOCTOR_TOKEN", ""))

    def _ping(self, size: int) -> Row:
        """Send single messages and wait for one byte back each."""
        data = os.urandom(size)
        times: list[float] = []
        with closing(self._join()) as line:
            line.say({"do": "answer", "message": size})
            stop = time.monotonic() + PING_S
            while len(times) < MOST_PINGS and (len(times) < 5 or time.monotonic() < stop):
                begin = time.perf_counter_ns()
                line.socket.sendall(data)
                if not line.socket.recv(1):
                    raise KvdoctorError("the peer left in the middle", "start it again")
                times.append((time.perf_counter_ns() - begin) / 1e9)
        rate = size / percentile(times, 0.5)
        about = {"streams": 1, "is": "one message there and one byte back"}
        return Row("message", size, rate, (rate,), tuple(times), direction="to peer", conditions=about)

    def _transfer(self, size: int, streams: int, way: str) -> Row:
        """Move messages for a second, several times; the rate is the sum over streams."""
        rates = []
        for _ in range(REPEATS):
            with ThreadPoolExecutor(streams) as pool:
                rates.append(sum(pool.map(lambda _: self._one(size, way), range(streams))))
        about = {"streams": streams, "seconds": self.options.seconds, "warm_up_seconds": WARM_S}
        return Row("transfer", size, statistics.median(rates), tuple(rates), direction=way, conditions=about)

    def _one(self, size: int, way: str) -> float:
        """Return the payload rate of one stream, as the receiver counted it."""
        with closing(self._join()) as line:
            if way == "to peer":
                line.say({"do": "take", "message": size, "warm": WARM_S})
                stream.send_for(line, size, self.options.seconds)
                found = line.hear()
            else:
                line.say({"do": "give", "message": size, "seconds": self.options.seconds})
                found = dict(stream.receive(line, WARM_S))
        if not found["rate"] > 0:
            raise KvdoctorError("nothing arrived after the warm-up", "the link is too slow for this probe")
        return float(found["rate"])


def _later(call: Callable[..., Row], *arguments: Any) -> Callable[[], Row]:
    return lambda: call(*arguments)
