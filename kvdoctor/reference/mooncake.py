"""A remote pool in a Mooncake store, where its client is installed."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.reference.stores import Key

_GIB = 1 << 30
# What `put` answers while the segments are full and the master has not evicted yet (0.3.13).
_NO_SPACE = -200
_START = "start mooncake_master --enable_http_metadata_server=true"
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Mooncake:
    """Where a Mooncake master and its metadata server are, and how much memory this client brings."""

    master: str
    """host:port of `mooncake_master`."""
    metadata: str
    """URL of its HTTP metadata server, such as http://127.0.0.1:8080/metadata."""
    host: str = "127.0.0.1"
    segment_bytes: int = _GIB
    """Memory that others may put their blocks into while we are there; 0 brings none."""
    buffer_bytes: int = _GIB // 4


class MooncakeStore:
    """A client of a Mooncake store over TCP.

    Raises Unavailable without the package `mooncake-transfer-engine-non-cuda` and KvdoctorError where the store
    does not answer.
    """

    def __init__(self, where: Mooncake) -> None:
        try:
            from mooncake.store import MooncakeDistributedStore
        except ImportError as error:
            raise Unavailable(
                f"Mooncake's client cannot be imported: {error}",
                "pip install mooncake-transfer-engine-non-cuda",
            ) from error
        self.name = "remote"
        for address in (where.master, urlsplit(where.metadata).netloc):
            _require_listener(address)
        self._store = MooncakeDistributedStore()
        status = self._store.setup(
            where.host, where.metadata, where.segment_bytes, where.buffer_bytes, "tcp", "", where.master
        )
        if status != 0:
            raise KvdoctorError(f"the Mooncake store at {where.master} refused us (status {status})", _START)

    def write(self, key: Key, data: memoryview) -> bool:
        """Put a block; False while the store is full. One that is there already stays as it is."""
        status = self._store.put(key.hex(), data.tobytes())
        if status not in (0, _NO_SPACE):
            raise KvdoctorError(f"the Mooncake store did not take a block (status {status})", "see its log")
        return bool(status == 0)

    def read(self, key: Key, into: memoryview) -> bool:
        """Get a block; the master may have evicted it."""
        found = self._store.get(key.hex())
        if len(found) != len(into):
            return False
        into[:] = found
        return True

    def drop(self, key: Key) -> None:
        """Remove a block; while a reader's lease lasts, the store keeps it."""
        self._store.remove(key.hex())

    def discard(self, key: Key) -> None:
        """Remove what nobody else can know of, lease or not. A client that cannot do that leaves it to eviction."""
        try:
            self._store.remove(key.hex(), True)
        except TypeError:
            self.drop(key)

    def close(self) -> None:
        """Leave the store."""
        self._store.close()


def _require_listener(address: str) -> None:
    """Raise KvdoctorError at once where nobody listens: the client's own attempts go on for a minute and a half."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise KvdoctorError(
            f"{address!r} is no HOST:PORT of a Mooncake store",
            "127.0.0.1:50051 for the master, http://127.0.0.1:8080/metadata for its metadata",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise KvdoctorError(f"no Mooncake store listens at {address}: {error}", _START) from error
