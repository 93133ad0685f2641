"""`python -m kvdoctor.lab.core`: the engine in a process of its own, on a socket that is its standard input."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from kvdoctor.errors import KvdoctorError
from kvdoctor.lab.messages import Ask, Drop, Ready, Refused
from kvdoctor.lab.planning import RankingScheduler
from kvdoctor.lab.recorder import Recorder
from kvdoctor.lab.settings import Settings, TierSetting
from kvdoctor.lab.tiering import IndexedTiers, ReadTier, WatchedLoader
from kvdoctor.reference.blocks import BlockPool
from kvdoctor.reference.bucket import TokenBucket
from kvdoctor.reference.engine import Engine, Model
from kvdoctor.reference.loader import Memory
from kvdoctor.reference.remote import PeerProcess, RemoteStore
from kvdoctor.reference.request import Phase, Request
from kvdoctor.reference.stores import FileStore, HostStore, Store

if TYPE_CHECKING:
    from kvdoctor.reference.cache import PagedCache

TITLE = "kvlab::EngineCore"
_IDLE_S = 0.2
"""How long an idle engine waits for a request before it looks whether its parent is still there."""


class Core:
    """The engine with its tiers, and the loop that feeds it."""

    def __init__(self, settings: Settings, model: Model, memory: Memory, block_bytes: int) -> None:
        self.settings = settings
        self._peer: PeerProcess | None = None
        pool = BlockPool(settings.pool_blocks, settings.block_size, caching=settings.caching)
        scheduler = RankingScheduler(
            pool,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            seconds=settings.ranking_s,
        )
        self.loader = self._loader(memory, block_bytes) if settings.tiers else None
        self.engine = Engine(model, scheduler, loader=self.loader)
        self.recorder = Recorder(self.engine, self.loader)
        self._parked = time.monotonic()

    def labels(self) -> tuple[tuple[str, str], ...]:
        """What `cache_config_info` says."""
        settings = self.settings
        return (
            ("block_size", str(settings.block_size)),
            ("cache_dtype", "auto"),
            ("enable_prefix_caching", str(settings.caching)),
            ("num_gpu_blocks", str(settings.pool_blocks)),
        )

    def serve(self, link: Connection) -> None:
        """Step while there is work; return when the other side has gone."""
        if self.loader:
            self.loader.before = lambda: self._tell(link)
        link.send(Ready(self.labels()))
        try:
            while True:
                while link.poll(0.0 if self.engine.busy else _IDLE_S):
                    self._take(link.recv(), link)
                if self.engine.busy:
                    self._park()
                    report = self.recorder.step(self.engine.step())
                    if report:
                        link.send(report)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return

    def close(self) -> None:
        """Close the tiers, and end the peer."""
        self.engine.close()
        if self._peer:
            self._peer.close()

    def _take(self, message: Ask | Drop, link: Connection) -> None:
        if isinstance(message, Drop):
            self.engine.abort(message.name)
            return
        try:
            self.engine.add(Request(message.name, message.prompt, message.max_tokens, message.salt))
        except KvdoctorError as error:
            link.send(Refused(message.name, error.message))

    def _tell(self, link: Connection) -> None:
        """Report the gauges before the engine stands still for a load."""
        report = self.recorder.moment()
        if report:
            link.send(report)

    def _park(self) -> None:
        """Move the blocks of a sequence in decode to the tiers, when it is time."""
        now = time.monotonic()
        if not self.settings.park_s or now - self._parked < self.settings.park_s:
            return
        scheduler = self.engine.scheduler
        if live := [request for request in scheduler.running if request.phase is Phase.DECODE]:
            self._parked = now
            scheduler.park(live[0])

    def _loader(self, memory: Memory, block_bytes: int) -> WatchedLoader:
        settings = self.settings
        levels = [self._tier(tier, block_bytes) for tier in settings.tiers]
        tiers = IndexedTiers(
            levels,
            pin_promises=settings.pin_promises,
            held_s=settings.index_held_s,
            free_s=settings.index_free_s,
        )
        return WatchedLoader(tiers, memory, prefetch=settings.prefetch, handover_s=settings.handover_s)

    def _tier(self, setting: TierSetting, block_bytes: int) -> ReadTier:
        makers: Mapping[str, Callable[[], Store]] = {
            "host": HostStore,
            "file": lambda: FileStore(block_bytes=block_bytes),
            "remote": self._remote,
        }
        rate = setting.read_bytes_per_s
        limit = TokenBucket(rate) if rate else None
        return ReadTier(makers[setting.kind](), blocks=setting.blocks, limit=limit)

    def _remote(self) -> Store:
        """A process of our own that holds blocks for us over TCP."""
        self._peer = PeerProcess()
        return RemoteStore(self._peer.host, self._peer.port)


def build(settings: Settings, folder: str) -> Core:
    """An engine with the model of a folder: its config.json, and random weights."""
    from kvdoctor.lab.model import model_and_cache

    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    model, cache = model_and_cache(config, settings)
    memory: PagedCache = cache
    return Core(settings, model, memory, cache.block_bytes)


def main() -> None:
    """Take the settings and the model's folder from the socket, then serve it."""
    from setproctitle import setproctitle

    setproctitle(TITLE)
    link = Connection(os.dup(0))
    settings, folder = link.recv()
    core = build(settings, folder)
    try:
        core.serve(link)
    finally:
        core.close()


if __name__ == "__main__":
    main()
