"""A Mooncake master on loopback for tests, where its package is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvdoctor.reference.mooncake import Mooncake

START_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def program() -> str:
    """The master; skips the test where the package is not there or its libraries are not."""
    pytest.importorskip("mooncake.store", reason="no Mooncake", exc_type=ImportError)
    beside = Path(sys.executable).with_name("mooncake_master")
    found = str(beside) if beside.exists() else shutil.which("mooncake_master")
    if found is None:
        pytest.skip("no mooncake_master")
    return found


@contextmanager
def master(folder: Path, *, segment: int = 64 * 2**20) -> Iterator[Mooncake]:
    """A running master with its metadata server; `segment` bytes are what each client brings."""
    rpc, http, metrics = free_ports(3)
    command = [
        program(),
        "--rpc_address=127.0.0.1",
        f"--rpc_port={rpc}",
        "--metrics_host=127.0.0.1",
        f"--metrics_port={metrics}",
        "--enable_http_metadata_server=true",
        "--http_metadata_server_host=127.0.0.1",
        f"--http_metadata_server_port={http}",
    ]
    with (folder / "master.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            for port in (rpc, http):
                _await(port, process)
            url = f"http://127.0.0.1:{http}/metadata"
            yield Mooncake(f"127.0.0.1:{rpc}", url, segment_bytes=segment, buffer_bytes=segment)
        finally:
            process.terminate()
            try:
                process.wait(timeout=START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until somebody listens."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"mooncake_master did not start (exit {process.poll()})")
