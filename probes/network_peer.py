"""The other end of the network probe: the one that is named, or a process of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes import child
from kvdoctor.probes.shortage import last_words, says_short, short

SECONDS = 40.0
"""That a probe takes at most, of itself."""
LEAVES_S = 1.0
"""Seconds in which a peer whose connection ended is gone, if it is that."""
PEER = "the peer on this machine"


@contextmanager
def peer(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Return the address of the peer; without one, start it here as a process of its own and end it afterwards."""
    if host:
        yield host, port
        return
    code = f"{child.BOOT_PACKAGE}\nfrom kvdoctor.probes import network_peer\nnetwork_peer.serve_once()"
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", code, child.package_folder()],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            stderr=errors,
        )
        yield from _talking(process, errors)


def _talking(process: subprocess.Popen[bytes], errors: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yield the address once, and end the peer afterwards; where it left, say why as far as it told."""
    try:
        first = process.stdout.readline() if process.stdout else b""
        if not first.strip().isdigit():
            raise KvdoctorError("the peer on this machine did not start", "is loopback up? ip link set lo up")
        yield "127.0.0.1", int(first)
    except (KvdoctorError, OSError) as error:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVES_S)
        if says_short(last_words(errors)):
            raise short(PEER) from error
        if process.returncode is None:
            raise
        raise KvdoctorError(
            f"{PEER} ended in the middle, with exit code {process.returncode}",
            "has it the memory? ulimit -v, or the cgroup's limit",
        ) from error
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
