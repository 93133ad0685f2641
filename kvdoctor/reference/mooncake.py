"""A remote pool in a Mooncake store, where its client is installed."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.reference.stores import Key

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Mooncake:
    """Where a Mooncake master and its metadata server are, and how much memory this client brings."""

    master: str
    """host:port of `mooncake_master`."""
    metadata: str
    """URL of its HTTP metadata server, such as http://127.0.0.1:8080/metadata."""
    host: str = "127.0.0.1"
    segment_bytes: int = _GIB
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
        self._store = MooncakeDistributedStore()
        status = self._store.setup(
            where.host, where.metadata, where.segment_bytes, where.buffer_bytes, "tcp", "", where.master
        )
        if status != 0:
            raise KvdoctorError(
                f"the Mooncake store at {where.master} refused us (status {status})",
                "start mooncake_master --enable_http_metadata_server=true",
            )

    def write(self, key: Key, data: memoryview) -> None:
        """Put a block."""
        status = self._store.put(key.hex(), data.tobytes())
        if status != 0:
            raise KvdoctorError(f"the Mooncake store did not take a block (status {status})", "see its log")

    def read(self, key: Key, into: memoryview) -> bool:
        """Get a block."""
        found = self._store.get(key.hex())
        if len(found) != len(into):
            return False
        into[:] = found
        return True

    def drop(self, key: Key) -> None:
        """Remove a block; while its lease lasts, the store keeps it."""
        self._store.remove(key.hex())

    def close(self) -> None:
        """Leave the store."""
        self._store.close()
