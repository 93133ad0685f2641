"""One file an engine: its metric names, and ours."""

from __future__ import annotations

from collections.abc import Iterable

from kvdoctor.engines import vllm
from kvdoctor.engines.engine import Engine

ENGINES: tuple[Engine, ...] = (vllm.ENGINE,)


def plain_name(engine: Engine, name: str) -> str:
    """Undo an export under another prefix, for example Ray's."""
    for other, own in engine.renames:
        if name.startswith(other):
            return own + name[len(other) :]
    return name


def recognise(names: Iterable[str]) -> Engine | None:
    """Return the engine whose families are among these raw names, None when there is none."""
    seen = tuple(names)
    for engine in ENGINES:
        prefixes = engine.prefixes + tuple(other for other, _ in engine.renames)
        if any(name.startswith(prefixes) for name in seen):
            return engine
    return None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def version_range(engine: Engine, names: Iterable[str]) -> str | None:
    """Narrow the release down by names that only some have, as `>=0.20.0` or `0.9.2 to 0.10`; else None."""
    plain = {plain_name(engine, n) for n in names}
    stems = plain | {n.removesuffix("_total") for n in plain}
    stems |= {n.removesuffix(s) for n in plain for s in ("_bucket", "_count", "_sum") if n.endswith(s)}
    seen = [era for era in engine.eras if era.name in stems]
    since = max((e.since for e in seen if e.since), key=_order, default="")
    until = min((e.until for e in seen if e.until), key=_order, default="")
    if since and until:
        return f"{since} to {until}" if _order(since) <= _order(until) else "names of several releases"
    return f">={since}" if since else f"<={until}" if until else None
