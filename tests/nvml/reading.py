"""Reads cards that the mock plays: their pages, their gaps, and what a view of the host makes of them."""

from __future__ import annotations

import json

from hosts import source, values

from kvdoctor.hostread import host_view
from kvdoctor.hostview import HostView
from kvdoctor.recording import Source

ABOUT = {"family": json.dumps({"root": 31004, "engine": "vllm"})}


def gaps(page):
    """The gaps of a page as (source, reason, cure)."""
    found = []
    for key in values(page.text):
        if key.startswith("host_gap{"):
            labels = dict(pair.split('="', 1) for pair in key[len("host_gap{") : -2].split('",'))
            found.append((labels["source"], labels["reason"], labels.get("cure", "")))
    return found


def told(page):
    """All gaps as one text."""
    return " | ".join(f"{source}: {reason} ({cure})" for source, reason, cure in gaps(page))


def read(place, stage, times=2):
    """Read a second apart; return the last page."""
    page = place.read()
    for second in range(1, times):
        stage.at(second)
        page = place.read()
    return page


def pages(place, stage, seconds=10):
    """Read once a second, as a recording does."""
    found = []
    for second in range(seconds + 1):
        stage.at(second)
        found.append(place.read().text)
        place.settle()
    return found


def recorded(place, stage, seconds=10) -> Source:
    """A host source of so many seconds."""
    return source(pages(place, stage, seconds), name="nvml", texts=ABOUT)


def viewed(place, stage, seconds=10) -> HostView:
    """The view of the whole recording."""
    view = host_view([recorded(place, stage, seconds)], 0.0, float(seconds))
    assert view is not None
    return view
