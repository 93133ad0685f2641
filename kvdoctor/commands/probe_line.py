"""From the command line of `kvdoctor probe` to each probe's own options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvdoctor.errors import Misuse

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
LIMITS = (("streams", 1, 64), ("tokens", 1, 4096), ("tp", 1, 1024))
"""Numbers that are given, and their bounds; a peer serves as many streams."""
LARGEST_BLOCK = 64 * 2**20
"""Bytes of a block: each one under way takes a buffer, and the file of the disk probe holds several."""
LAST_PORT = 65535
LONGEST_S = 86400.0
"""Seconds of a probe, or of a peer: it ends by itself within a day."""


@dataclass(frozen=True, slots=True)
class Line:
    """The command line, its sizes in bytes."""

    pid: int | None = None
    url: str | None = None
    python: str | None = None
    device: str = "auto"
    size: int = 0
    path: str = "."
    blocks: tuple[int, ...] = ()
    peer: str | None = None
    streams: int = 4
    mooncake: str = ""
    prompt_file: str | None = None
    served_model: str = ""
    tokens: int = 4
    model: str | None = None
    batch: int | None = None
    context: str | None = None
    kv_dtype: str = ""
    gpu: str | None = None
    tp: int = 1

    @property
    def is_shared(self) -> bool:
        """Say whether it is measured beside a service."""
        return self.pid is not None or self.url is not None


def line_of(given: Mapping[str, Any]) -> Line:
    """Return the command line of what typer gave; Misuse or KvdoctorError for what is not understood."""
    from kvdoctor.commands.kvlayout import block_sizes
    from kvdoctor.roofline.quantity import size_bytes

    if not DEVICE.fullmatch(given["device"]):
        raise Misuse(f"--device {given['device']} is no device", "auto, cpu, cuda or cuda:1")
    for name, least, most in LIMITS:
        if not least <= given[name] <= most:
            raise Misuse(f"--{name} {given[name]} is not between {least} and {most}", f"--{name} {least}")
    known = {field.name: given[field.name] for field in fields(Line) if field.name in given}
    known["size"] = int(size_bytes(given["size"])) if given["size"] else 0
    known["blocks"] = block_sizes(given["block"] or (), model=given["model"], tp=given["tp"])
    if given["block"] and not all(0 < block <= LARGEST_BLOCK for block in known["blocks"]):
        raise Misuse("--block is above 0 and 64 MiB at most", "--block 64KiB")
    return Line(**known)


def check_seconds(seconds: float | None) -> None:
    """Misuse for a time limit that is none."""
    if seconds is not None and not 0 < seconds <= LONGEST_S:
        raise Misuse(f"--seconds {seconds:g} is not above 0 and {LONGEST_S:g} at most", "--seconds 60")


def _decode(line: Line) -> dict[str, Any]:
    from kvdoctor.commands.decoding import decode_options

    wanted = decode_options(line.model, line.pid, line.batch, line.context)
    return {
        **wanted,
        "kv_dtype": line.kv_dtype,
        "size": line.size,
        "device": line.device,
        "shared": line.is_shared,
    }


def _hbm(line: Line) -> dict[str, Any]:
    return {"size": line.size, "device": line.device, "shared": line.is_shared}


def _pcie(line: Line) -> dict[str, Any]:
    return {**_hbm(line), "blocks": line.blocks}


def _nvme(line: Line) -> dict[str, Any]:
    size = {"size": line.size} if line.size else {}
    return {"path": os.path.abspath(line.path), "blocks": line.blocks, "shared": line.is_shared, **size}


def _network(line: Line) -> dict[str, Any]:
    host, _, port = (line.peer or "").rpartition(":")
    if line.peer and not (host and port.isdecimal() and port.isascii() and 0 < int(port[:6]) <= LAST_PORT):
        raise Misuse(f"--peer {line.peer} is no HOST:PORT", "--peer 10.0.0.2:47600")
    where = {"host": host.strip("[]"), "port": int(port)} if line.peer else {}
    return {
        **where,
        "streams": line.streams,
        "mooncake": line.mooncake,
        "blocks": line.blocks,
        "shared": line.is_shared,
    }


def _request(line: Line) -> dict[str, Any]:
    if not line.url or not line.prompt_file:
        raise Misuse(
            "request sends a real prompt to a service",
            "kvdoctor probe request --url http://HOST:PORT --prompt-file FILE",
        )
    return {
        "url": line.url,
        "prompt_file": os.path.abspath(line.prompt_file),
        "model": line.served_model,
        "tokens": line.tokens,
    }


OPTIONS: dict[str, Callable[[Line], Mapping[str, Any]]] = {
    "hbm": _hbm,
    "pcie": _pcie,
    "nvme": _nvme,
    "decode": _decode,
    "network": _network,
    "request": _request,
}
"""From the command line to each probe's own options."""
