"""From the command line of `kvdoctor probe` to each probe's own options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kvdoctor.errors import Misuse

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


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
    known = {field.name: given[field.name] for field in fields(Line) if field.name in given}
    known["size"] = int(size_bytes(given["size"])) if given["size"] else 0
    known["blocks"] = block_sizes(given["block"] or (), model=given["model"], tp=given["tp"])
    return Line(**known)


def _decode(line: Line) -> dict[str, Any]:
    from kvdoctor.commands.decoding import decode_options

    wanted = decode_options(line.model, line.pid, line.batch, line.context)
    return {**wanted, "kv_dtype": line.kv_dtype, "size": line.size, "device": line.device}


def _hbm(line: Line) -> dict[str, Any]:
    return {"size": line.size, "device": line.device, "shared": line.is_shared}


def _pcie(line: Line) -> dict[str, Any]:
    return {**_hbm(line), "blocks": line.blocks}


def _nvme(line: Line) -> dict[str, Any]:
    size = {"size": line.size} if line.size else {}
    return {"path": os.path.abspath(line.path), "blocks": line.blocks, "shared": line.is_shared, **size}


def _network(line: Line) -> dict[str, Any]:
    host, _, port = (line.peer or "").rpartition(":")
    if line.peer and not (host and port.isdigit()):
        raise Misuse(f"--peer {line.peer} is no HOST:PORT", "--peer 10.0.0.2:47600")
    where = {"host": host.strip("[]"), "port": int(port)} if line.peer else {}
    return {**where, "streams": line.streams, "mooncake": line.mooncake, "blocks": line.blocks}


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
