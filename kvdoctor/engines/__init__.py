"""One file an engine: its metric names, and ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvdoctor.engines import (
    dcgm,
    dynamo,
    lab,
    llamacpp,
    lmcache,
    lmdeploy,
    mooncake,
    nixl,
    sglang,
    tgi,
    transformers,
    trtllm,
    vllm,
)
from kvdoctor.engines.engine import Engine

ENGINES: tuple[Engine, ...] = (
    vllm.ENGINE,
    sglang.ENGINE,
    trtllm.ENGINE,
    tgi.ENGINE,
    lmdeploy.ENGINE,
    llamacpp.ENGINE,
    trtllm.UNPREFIXED,
    transformers.ENGINE,
    dynamo.FRONTEND,
    dynamo.WORKER,
    lab.ENGINE,
)
"""In order of preference: a page of several is judged by the first of them."""

LAYERS: tuple[Engine, ...] = (
    lmcache.SERVER,
    lmcache.ENGINE,
    dynamo.KVBM,
    mooncake.CLIENT,
    mooncake.TENT,
    mooncake.MASTER,
    nixl.ENGINE,
    dcgm.ENGINE,
)
"""In order of preference: of two that tell of the same bytes, the one nearer to the engine counts."""

SEVERAL = "names of several releases"

Series = tuple[str, Sequence[tuple[str, str]]]
"""Name and labels."""


def plain_name(engine: Engine, name: str) -> str:
    """Undo an export under another prefix, for example Ray's."""
    for other, own in engine.renames:
        if name.startswith(other):
            return own + name[len(other) :]
    return name


def _shows(engine: Engine, seen: Sequence[Series]) -> bool:
    prefixes = engine.marks or engine.prefixes + tuple(other for other, _ in engine.renames)
    if not prefixes:
        return False
    label = engine.mark_label
    return any(
        name.startswith(prefixes) and (not label or any(key == label for key, _ in labels))
        for name, labels in seen
    )


def recognise(names: Iterable[str | Series]) -> Engine | None:
    """Return the engine whose families are among these raw names, None when there is none.

    Engines that share their names with others are recognised only where labels are given too.
    """
    seen = [(name, ()) if isinstance(name, str) else name for name in names]
    return next((engine for engine in ENGINES if _shows(engine, seen)), None)


def layers_of(names: Iterable[str | Series]) -> tuple[Engine, ...]:
    """Return the KV layers and exporters whose families are among these raw names."""
    seen = [(name, ()) if isinstance(name, str) else name for name in names]
    return tuple(layer for layer in LAYERS if _shows(layer, seen))


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
        return f"{since} to {until}" if _order(since) <= _order(until) else SEVERAL
    return f">={since}" if since else f"<={until}" if until else None
