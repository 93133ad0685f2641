"""Several models on one page: each has an engine of its own, and is judged by its own series."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor import metrics as m
from kvdoctor.engines.engine import Engine, model_key
from kvdoctor.recording import Column, Source
from kvdoctor.timeline import Timeline


def _model(column: Column, engine: Engine) -> str:
    """Return the model that a series names, one spelling each; empty where it names none."""
    name = dict(column.labels).get(engine.model_label, "")
    return "" if name == "undefined" else model_key(engine, name)


def several(source: Source, engine: Engine) -> bool:
    """Say whether the series of a page name more than one model, whenever they were there."""
    return len({name for column in source.columns if (name := _model(column, engine))}) > 1


def apart(line: Timeline) -> tuple[Source, ...]:
    """Return a source for each model whose engine tells its running requests in a stretch; the one source otherwise.

    Series that name no model belong to all. A front end's models share its queues and stay together.
    """
    source, engine = line.source, line.engine
    found = sorted({name for column in line.columns(m.RUNNING) if (name := _model(column, engine))})
    if len(found) < 2 or engine.role:
        return (source,)
    return tuple(
        replace(source, columns=[c for c in source.columns if _model(c, engine) in ("", name)])
        for name in found
    )
