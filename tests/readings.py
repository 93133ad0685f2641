"""Short ways to a timeline and a diagnosis of any engine's page, and to the captures that lie beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from loads import WALL, Page

from kvdoctor.diagnose import diagnose
from kvdoctor.engines import LAYERS, recognise
from kvdoctor.engines.engine import Engine
from kvdoctor.joined import Joined, layer_lines
from kvdoctor.model import Diagnosis
from kvdoctor.recording import Recording, Source
from kvdoctor.timeline import Timeline

SHARED = Path(os.environ.get("KVDOCTOR_SHARED") or Path(__file__).resolve().parents[1] / ".." / "shared")
CAPTURES = SHARED / "captures"
FIXTURES = Path(__file__).parent / "fixtures" / "metrics"


def capture(name: str) -> str:
    """The path of a capture; skips the test where it is absent."""
    path = CAPTURES / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return str(path)


def blank(seconds: float = 30.0, readings: int = 31, **labels: str) -> Page:
    """A page without a series whose labels are these."""
    return Page(seconds, readings, labels=dict(labels))


def line(page: Page, engine: Engine, first: int = 0) -> Timeline:
    """One engine's or one layer's signals over a whole page."""
    return Timeline(page.source(), engine, first, page.readings - 1)


def joined(page: Page, *others: Page, engine: Engine | None = None) -> Joined:
    """An engine's signals with the layers of its own page and of others."""
    source = page.source()
    found = engine or recognise((c.name, c.labels) for c in source.columns)
    assert found is not None
    own = Timeline(source, found, 0, page.readings - 1)
    sources = [source, *(other.source() for other in others)]
    return Joined(own, layer_lines(sources, 0.0, page.seconds, lifetime=False))


def judged(*pages: Page, **facts: str) -> Diagnosis:
    """The diagnosis of several endpoints."""
    sources: list[Source] = []
    for number, page in enumerate(pages):
        source = page.source()
        source.name = f"http://host-{number}:8000"
        sources.append(source)
    return diagnose(Recording(1, "0.1.0", WALL, sources, facts=dict(facts)))


def layer(name: str) -> Engine:
    """A layer by its name."""
    return next(each for each in LAYERS if each.name == name)
