"""Messages through torch.distributed's gloo, between two processes of this machine."""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import child, inside
from kvdoctor.probes.shortage import is_short, last_words, says_short, short
from kvdoctor.probes.timing import Row

MIB = 2**20
SIZES = (MIB, 16 * MIB)
ROUNDS, WARM = 8, 2
LIMIT_S = 30.0


def rows(local: bool) -> list[Row]:
    """Send tensors to a process of our own over loopback; Unavailable without torch, or to another host."""
    if not local:
        raise Unavailable(
            "gloo between hosts opens ports of its own on every interface",
            "measure it with the service's own launcher",
        )
    if importlib.util.find_spec("torch") is None:
        raise Unavailable("this Python has no torch", "pip install 'kvdoctor[torch]', or --python PATH")
    try:
        import torch.distributed as dist
    except (ImportError, OSError, MemoryError) as error:
        if is_short(error):
            raise short("torch, to be loaded,") from error
        raise Unavailable(f"torch cannot be loaded: {error}", "--python PATH of another") from error
    if not dist.is_available() or not dist.is_gloo_available():
        raise Unavailable("this torch was built without gloo", "--python PATH of another")
    return _paired()


def _paired() -> list[Row]:
    """Start the other process, and measure; Unavailable where gloo fails: what was measured before it stays."""
    # A file without a name as meeting place: it is gone when both processes are.
    meeting = os.memfd_create("kvdoctor-gloo")
    place = f"/proc/{os.getpid()}/fd/{meeting}"
    code = f"{child.BOOT_PACKAGE}\nfrom kvdoctor.probes import gloo\ngloo.peer(sys.argv[2])"
    with tempfile.TemporaryFile() as errors:
        peer = subprocess.Popen(
            [sys.executable, "-B", "-c", code, child.package_folder(), place],
            stdin=subprocess.PIPE,
            stderr=errors,
        )
        try:
            return _send(place)
        except (RuntimeError, OSError, MemoryError) as error:
            raise _failed(error, last_words(errors)) from error
        finally:
            peer.kill()
            peer.wait()
            if peer.stdin:
                peer.stdin.close()
            os.close(meeting)


def _failed(error: Exception, words: str) -> Unavailable:
    """Say why it failed: `words` are the other process's last."""
    if is_short(error):
        return short("gloo")
    if says_short(words):
        return short("gloo's other process on this machine")
    said = (str(error) or type(error).__name__).splitlines()[0]
    return Unavailable(f"gloo failed: {said}", "is loopback up? ip link set lo up")


def _meet(place: str, rank: int) -> Any:
    """Join the group of two, on the loopback interface alone."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"file://{place}", rank=rank, world_size=2, timeout=timedelta(seconds=LIMIT_S)
    )
    return dist


def _send(place: str) -> list[Row]:
    """Send each size several times; the peer answers the last byte with a byte."""
    import torch

    dist, found = _meet(place, 0), []
    byte = torch.zeros(1, dtype=torch.uint8)
    for size in SIZES:
        data, rates, times = torch.randint(0, 256, (size,), dtype=torch.uint8), [], []
        for number in range(WARM + ROUNDS):
            begin = time.perf_counter()
            dist.send(data, 1)
            dist.recv(byte, 1)
            if number >= WARM:
                times.append(time.perf_counter() - begin)
                rates.append(size / times[-1])
        if int(byte[0]) != int(data[-1]):
            raise KvdoctorError("a message arrived changed", "test this machine's memory")
        about = {"transport": f"torch {torch.__version__}, gloo", "is": "one message there and one byte back"}
        found.append(
            Row(
                "gloo",
                size,
                statistics.median(rates),
                tuple(rates),
                tuple(times),
                direction="to peer",
                conditions=about,
            )
        )
    dist.destroy_process_group()
    return found


def peer(place: str) -> None:
    """Be the other process."""
    import torch

    inside.die_with(os.getppid())
    dist = _meet(place, 1)
    for size in SIZES:
        data = torch.empty(size, dtype=torch.uint8)
        for _ in range(WARM + ROUNDS):
            dist.recv(data, 0)
            dist.send(data[-1:].clone(), 0)
    dist.destroy_process_group()
