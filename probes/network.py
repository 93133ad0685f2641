"""Messages to a peer: bandwidth with one stream and with many, by message size, and the latency's tail.

Footprint: some MiB of memory, up to about 45 seconds of the link between both ends; beside a service a second of it
in bursts of 50 ms, and 4 GiB at most.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import manners, store, stream
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.network_peer import PEER, peer
from kvdoctor.probes.network_tempo import (
    NO_GLOO,
    SHARED_BYTES,
    SHARED_LIMIT_S,
    SHARED_MESSAGES,
    SHORT,
    USED_UP,
    Tempo,
    shared_tempo,
)
from kvdoctor.probes.serve import is_loopback
from kvdoctor.probes.shortage import PeerShort, short
from kvdoctor.probes.timing import ALONE, Row, percentile

KIB, MIB = 2**10, 2**20
MESSAGES = (64 * KIB, MIB, 16 * MIB)
PINGS = (64, 64 * KIB, MIB)
STREAMS = 4
TRANSFER_S, WARM_S = 1.0, 0.4
"""Seconds; a stream on loopback still gains after 0.2 s, while TCP's window grows."""
REPEATS = 3
PING_S, MOST_PINGS = 0.6, 2000


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
    shared: bool = False
    """Somebody else uses this link: short bursts with rests between them."""
    mooncake: str = ""
    """host:port of a Mooncake master, and of its metadata server behind a comma."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    client = store.buffer_bytes(options.blocks) if options.mooncake else 0
    if options.shared:
        return Footprint(
            SHARED_LIMIT_S,
            host_bytes=(options.streams + 2) * 2 * max(SHARED_MESSAGES) + client,
            moved_bytes=SHARED_BYTES,
            loads="the link to the peer and a processor at each end, in bursts",
        )
    transfers = 2 * (len(options.messages) + 1) * REPEATS
    return Footprint(
        transfers * (options.seconds + 0.5) + len(PINGS) * PING_S + 5.0,
        host_bytes=(options.streams + 2) * 2 * max(options.messages) + client,
        loads="the link to the peer and a processor at each end",
    )


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Measure the way to the peer; KvdoctorError where it does not answer."""
    manners.require_memory(footprint(options).host_bytes, "the network probe")
    with peer(options.host, options.port) as (host, port):
        try:
            return _Client(host, port, options, tell).result()
        except PeerShort as error:
            raise short(f"the peer at {host}:{port}" if options.host else PEER) from error
        except OSError as error:
            raise KvdoctorError(
                f"{host}:{port}: {error.strerror or error}", "is the peer still there?"
            ) from error


class _Client:
    """The measuring end."""

    def __init__(self, host: str, port: int, options: Options, tell: Tell) -> None:
        self.host, self.port, self.options, self.tell = host, port, options, tell
        self.tempo = _tempo(options)

    def result(self) -> dict[str, Any]:
        """Measure everything and return the JSON object."""
        local = is_loopback(self.host)
        plans: list[tuple[str, Callable[[], Row]]] = [
            (f"messages of {_size(size)}", _later(self._ping, size)) for size in PINGS
        ]
        shapes = [(size, 1) for size in self.tempo.messages] + [(MIB, self.options.streams)]
        for size, streams in shapes:
            for way in ("to peer", "from peer"):
                plans.append(
                    (f"{_size(size)} {way}, {streams} at a time", _later(self._transfer, size, streams, way))
                )
        rows: list[Row] = []
        gaps: list[dict[str, str]] = []
        for done, (says, measure_row) in enumerate(plans):
            if self.tempo.used_up:
                gaps.append({"source": says, "reason": USED_UP, "cure": ALONE})
                continue
            self.tell(says, done / len(plans))
            rows.append(measure_row())
        if self.options.others:
            extra, more = self._other_transports(local)
            rows, gaps = rows + extra, gaps + more
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
                **self._manners(),
            },
        }

    def _manners(self) -> dict[str, Any]:
        """What was kept to beside a service."""
        if not self.options.shared:
            return {}
        return {**self.tempo.pace.about(), "moved_bytes": self.tempo.bytes, "says": SHORT}

    def _other_transports(self, local: bool) -> tuple[list[Row], list[dict[str, str]]]:
        """Measure through torch's gloo and a Mooncake store where they are there; else say why not."""
        from kvdoctor.probes import gloo

        others: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
            ("gloo", lambda: gloo.rows(local)),
            (
                "Mooncake",
                lambda: store.rows(self.options.mooncake, self.options.blocks, self.tempo.pace),
            ),
        )
        rows: list[Row] = []
        gaps: list[dict[str, str]] = []
        for name, measure_rows in others:
            self.tell(name, 0.95)
            try:
                if self.options.shared and name == "gloo":
                    raise NO_GLOO
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
            stop = time.monotonic() + self.tempo.ping_s
            while len(times) < MOST_PINGS and (len(times) < 5 or time.monotonic() < stop):
                begin = time.perf_counter_ns()
                line.socket.sendall(data)
                answer = line.socket.recv(1)
                if not answer:
                    raise KvdoctorError("the peer left in the middle", "start it again")
                if answer == stream.DECLINED[:1]:
                    raise PeerShort
                times.append((time.perf_counter_ns() - begin) / 1e9)
        self.tempo.rest(sum(times), size * len(times))
        rate = size / percentile(times, 0.5)
        about = {"streams": 1, "is": "one message there and one byte back"}
        return Row("message", size, rate, (rate,), tuple(times), direction="to peer", conditions=about)

    def _transfer(self, size: int, streams: int, way: str) -> Row:
        """Move messages for a while, several times; the rate is the sum over streams.

        Beside a service it is the payload of all streams over the whole burst: within one so short they need not
        overlap, and their sum could be more than the link carries.
        """
        rates: list[float] = []
        while not rates or (len(rates) < self.tempo.repeats and not self.tempo.used_up):
            lines = [self._join() for _ in range(streams)]
            begin = time.monotonic()
            with ThreadPoolExecutor(streams) as pool:
                found = list(pool.map(lambda line: self._one(line, size, way), lines))
            wall, payload = time.monotonic() - begin, sum(moved for _, moved in found)
            rates.append(payload / wall if self.options.shared else sum(rate for rate, _ in found))
            self.tempo.rest(wall, payload)
        about = {"streams": streams, "seconds": self.tempo.seconds, "warm_up_seconds": self.tempo.warm_s}
        return Row("transfer", size, statistics.median(rates), tuple(rates), direction=way, conditions=about)

    def _one(self, line: stream.Line, size: int, way: str) -> tuple[float, int]:
        """Return the payload rate of one stream and its bytes, as the receiver counted them."""
        seconds, warm_s = self.tempo.seconds, self.tempo.warm_s
        with closing(line):
            if way == "to peer":
                line.say({"do": "take", "message": size, "warm": warm_s})
                stream.send_for(line, size, seconds)
                found = line.hear()
            else:
                line.say({"do": "give", "message": size, "seconds": seconds})
                found = dict(stream.receive(line, warm_s))
        if not found["bytes" if self.options.shared else "rate"] > 0:
            raise KvdoctorError("nothing arrived after the warm-up", "the link is too slow for this probe")
        return float(found["rate"]), int(found["bytes"])


def _size(size: int) -> str:
    """Name a size for people, in the largest unit of which it has a whole number."""
    scale, unit = next(((s, u) for s, u in ((MIB, "MiB"), (KIB, "KiB")) if size % s == 0), (1, "bytes"))
    return f"{size // scale} {unit}"


def _tempo(options: Options) -> Tempo:
    """Return how long transfers take."""
    if options.shared:
        return shared_tempo(time.monotonic() + SHARED_LIMIT_S)
    return Tempo(options.messages, options.seconds, WARM_S, PING_S, REPEATS)


def _later(call: Callable[..., Row], *arguments: Any) -> Callable[[], Row]:
    return lambda: call(*arguments)
