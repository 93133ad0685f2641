"""The compiled half of the CPU path: built with the machine's own compiler on first use, loaded by ctypes.

A C++ extension of torch would do the same and take a minute to build; this takes seconds and needs no headers of
torch. Without a compiler everything falls back to torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import torch

from kvdoctor.errors import Unavailable

_SOURCES = Path(__file__).parent / "native"
# Not -ffast-math: linking with it would switch off subnormal numbers in the whole process.
_SPEED = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
)
_FLAGS = (*_SPEED, "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-Wno-psabi")
_BUILD_S = 120
# The numbers that the C++ side knows the formats by.
FORMATS = {"fp32": 0, "bf16": 1, "fp16": 2, "int8": 3, "fp8": 4, "int4": 5}
_HEADS_POINTERS = ("projected", "cosine", "sine", "q_norm", "k_norm", "memory", "blocks", "offsets")
_HEADS_SIZES = ("tokens", "heads", "kv_heads", "dim", "page", "format", "threads")
_POINTERS = ("query", "result", "memory", "tables", "lengths")
_OFFSETS = ("block_bytes", "keys", "values", "key_scales", "value_scales")
_SIZES = ("rows", "columns", "heads", "kv_heads", "dim", "page", "window", "threads")


class Attention(ctypes.Structure):
    """The arguments of `kv_attend`, field by field as attend.cpp declares them."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _OFFSETS),
        *((name, ctypes.c_int32) for name in _SIZES),
    )


class Heads(ctypes.Structure):
    """The arguments of `kv_heads`, field by field as small.cpp declares them."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _HEADS_POINTERS),
        *((name, ctypes.c_int64) for name in _OFFSETS[:3]),
        *((name, ctypes.c_int32) for name in _HEADS_SIZES),
        ("epsilon", ctypes.c_float),
    )


def library() -> ctypes.CDLL | None:
    """The compiled functions, or None where they cannot be built (`unavailable` says why)."""
    try:
        return _load()
    except Unavailable:
        return None


def unavailable() -> str:
    """Why there is no compiled library; empty where there is one."""
    try:
        _load()
    except Unavailable as error:
        return error.reason
    return ""


@lru_cache(maxsize=1)
def _load() -> ctypes.CDLL:
    """Build unless built already, load, declare the signatures."""
    path = _folder() / f"decode-{_fingerprint()}.so"
    if not path.exists():
        _build(path)
    found = ctypes.CDLL(str(path))
    pointer, wide, small = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    found.kv_product.argtypes = (pointer, pointer, pointer, wide, wide, wide, small, small)
    found.kv_attend.argtypes = (ctypes.POINTER(Attention), small)
    found.kv_norm.argtypes = (pointer, pointer, pointer, wide, wide, ctypes.c_float, small)
    found.kv_gate.argtypes = (pointer, pointer, wide, wide, small)
    found.kv_heads.argtypes = (ctypes.POINTER(Heads),)
    found.kv_norm.restype = found.kv_gate.restype = found.kv_heads.restype = None
    found.kv_read.argtypes = (pointer, wide, small)
    found.kv_read.restype = ctypes.c_double
    return found


def _folder() -> Path:
    """The user's cache folder. Raises Unavailable where others could write to it: we load code from there."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "kvdoctor"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise Unavailable(f"no cache folder: {error}", "set XDG_CACHE_HOME") from error
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unavailable(f"{folder} can be written by others", f"chmod 700 {folder}")
    return folder


def _fingerprint() -> str:
    """Changes with the sources, the flags, the CPU and torch, whose OpenMP we share."""
    parts = [path.read_bytes() for path in sorted(_SOURCES.iterdir())]
    parts += [" ".join(_FLAGS).encode(), torch.__version__.encode(), torch.__file__.encode(), _cpu()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _cpu() -> bytes:
    """The CPU's features, as the kernel lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().split(b"\n")
    except OSError:
        return b""
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")


def _build(path: Path) -> None:
    """Compile into a temporary name, then rename: two processes may build at once."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise Unavailable("there is no C++ compiler", "apt install g++")
    sources = [str(source) for source in sorted(_SOURCES.glob("*.cpp"))]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        target = os.path.join(folder, path.name)
        command = [compiler, *sources, *_openmp(), *_FLAGS, "-o", target]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"{compiler} took more than {_BUILD_S} s", "build on an idle machine"
            ) from error
        if done.returncode:
            raise Unavailable(f"{compiler} failed: {done.stderr.strip()[-300:]}", "apt install g++ libgomp1")
        os.replace(target, path)


def _openmp() -> list[str]:
    """torch's own OpenMP where it brings one: two runtimes would keep two sets of threads spinning."""
    home = Path(torch.__file__).parent
    found = sorted((home / "lib").glob("libgomp*.so*")) + sorted(home.parent.glob("torch.libs/libgomp*.so*"))
    return ["-Wl,--as-needed", str(found[0])] if found else []
