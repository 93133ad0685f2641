"""Builds the mock NVML library with the machine's compiler, and has the unmodified nvidia-ml-py load it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAME = "libnvidia-ml.so.1"
PARTS = ("scenario", "library", "device", "lists", "gpm")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-D_GNU_SOURCE")
SCENARIO, CLOCK = "NVML_MOCK_SCENARIO", "NVML_MOCK_CLOCK"
"""Environment variables of the library: the scenario's file, and a file with the time in seconds."""
DRIVER_470 = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlSystemGetConfComputeState",
    "nvmlGpm*",
)
"""Symbols that a driver of the 470 branch does not export."""


def compiler() -> str | None:
    """Return the machine's C compiler, None without one."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


@dataclass
class Library:
    """The mock, compiled once, and linked once for each set of absent symbols."""

    folder: Path
    linked: dict[tuple[str, ...], Path] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    def compile(self) -> None:
        """Compile every part."""
        for part in PARTS:
            self._run(*FLAGS, "-c", str(HERE / f"{part}.c"), "-o", str(self.folder / f"{part}.o"))

    def link(self, absent: Iterable[str] = ()) -> Path:
        """Return a library without the symbols that these patterns match."""
        patterns = tuple(sorted(absent))
        if patterns not in self.linked:
            kept = [name for name in _calls() if not any(fnmatch(name, each) for each in patterns)]
            number = next(self.numbers)
            script, path = self.folder / f"{number}.map", self.folder / f"{number}.so"
            script.write_text(f"{{ global: {'; '.join(kept)}; local: *; }};")
            objects = [str(self.folder / f"{part}.o") for part in PARTS]
            options = ("-shared", f"-Wl,-soname,{NAME}", f"-Wl,--version-script={script}")
            self._run(*options, *objects, "-lm", "-o", str(path))
            self.linked[patterns] = path
        return self.linked[patterns]

    def fresh(self, absent: Iterable[str] = ()) -> ctypes.CDLL:
        """Load a copy of its own, so that no state of another user is in it."""
        path = self.folder / f"copy{next(self.numbers)}.so"
        shutil.copy(self.link(absent), path)
        return ctypes.CDLL(str(path))

    def _run(self, *words: str) -> None:
        done = subprocess.run([compiler() or "cc", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)


def _calls() -> list[str]:
    """Return the names of the calls that the mock has."""
    text = "".join((HERE / f"{part}.c").read_text() for part in PARTS)
    return sorted(set(re.findall(r"\bnvml[A-Z]\w+", text)))


def installed(library: Library, folder: Path, absent: Iterable[str] = ()) -> Path:
    """Put the library under the name that a process looks for; for LD_LIBRARY_PATH. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(library.link(absent), folder / NAME)
    return folder


def bind(pynvml: Any, library: ctypes.CDLL) -> None:
    """Have the binding use this library from its next call on."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
