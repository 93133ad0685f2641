"""The mock library, built once a session and put under the binding afresh for each test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
import pytest
from nvml import scenes
from nvml.mock import CLOCK, SCENARIO, Library, bind, compiler

from kvdoctor.collectors.nvml import Nvml
from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.target.family import Card


class Stage:
    """One scenario on the mock, with a clock that the test moves."""

    def __init__(self, library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.library, self.folder = library, folder
        self.scenario, self.clock = folder / "scenario", folder / "clock"
        self.now = 0.0
        monkeypatch.setenv(SCENARIO, str(self.scenario))
        monkeypatch.setenv(CLOCK, str(self.clock))
        self.at(0.0)

    def play(self, *lines: str, absent: tuple[str, ...] = ()) -> Any:
        """Return the binding with a library that plays these lines."""
        self.scenario.write_text("\n".join(lines) + "\n")
        bind(pynvml, self.library.fresh(absent))
        return pynvml

    def at(self, seconds: float) -> None:
        """Set the library's clock."""
        self.now = seconds
        self.clock.write_text(f"{seconds}\n")

    def time(self) -> float:
        """Tell the library's clock."""
        return self.now


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Build the mock; skip where there is no compiler."""
    if compiler() is None:
        pytest.skip("no C compiler (cc, gcc, clang) builds the mock NVML library here")
    built = Library(tmp_path_factory.mktemp("nvml"))
    built.compile()
    return built


@pytest.fixture
def stage(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage; afterwards the binding has no library, as before."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    return Stage(library, tmp_path, monkeypatch)


@pytest.fixture
def watch(stage):
    """Play lines and return a place that reads the cards; `Card(0)` is the engine's unless told otherwise."""

    def start(*lines, cards=(Card(0),), absent=(), here=None, number=1):
        nvml = stage.play(*scenes.healthy(number), *lines, absent=absent)
        return Nvml(cards, (scenes.PID,), load=lambda: nvml, sys="/nonexistent", clock=stage.time,
                    here=here or Setting())  # fmt: skip

    return start
