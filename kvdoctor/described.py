"""What a report says of each engine, front end and layer: name, release, role, address."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor import overview
from kvdoctor.case import Case
from kvdoctor.engines import version_range
from kvdoctor.hostread import KIND
from kvdoctor.service import Memory, TargetInfo
from kvdoctor.timeline import Timeline

LAYER = "kv layer"
"""The role of what is evidence for an engine, and no engine."""


def _role(case: Case) -> str | None:
    """Tell the two sides of a disaggregated pair: one gives single tokens, the other computes no prompt."""
    t = case.traffic
    told = {dict(c.labels).get(case.timeline.engine.role_label) for c in case.timeline.columns(m.RUNNING)}
    if case.timeline.engine.role or told & {"prefill", "decode"}:
        return case.timeline.engine.role or " + ".join(sorted(filter(None, told)))
    computed = case.timeline.total(m.PROMPT_COMPUTED)
    if _computes_no_prompt(case):
        return "decode"
    outputs = case.timeline.lifetime(m.OUTPUT_LENGTH)
    single = outputs is not None and outputs.mean is not None and outputs.mean <= 1.0
    if (
        single
        and computed
        and case.timeline.has(m.KV_FETCH_IN_PROGRESS)
        and t.itl is not None
        and not t.itl.count
    ):
        return "prefill"
    return None


def _computes_no_prompt(case: Case) -> bool:
    """Whether all but the unfinished last block of the prompts came over a link, since the start.

    A server that finds long prefixes in a shared far pool computes the rest of each prompt and is no decode side.
    """
    line, asked = case.timeline, case.timeline.lifetime(m.TTFT)
    external, prompts = line.total(m.PROMPT_EXTERNAL), line.total(m.PROMPT_TOKENS)
    if not (external and prompts and asked and asked.count and line.has(m.TRANSFER_SECONDS)):
        return False
    left = (prompts - external) / asked.count
    return external > 0.5 * prompts and left <= (case.traffic.block_size or 1.0)


def target_info(case: Case) -> TargetInfo:
    """Describe one engine as far as its own text tells."""
    source, engine, host = case.timeline.source, case.timeline.engine, case.host
    cards = host.cards if host else ()
    version = source.texts.get("version") or version_range(engine, (c.name for c in source.columns))
    models = case.timeline.models()
    # With a fixed number of blocks the bytes are what the pool might have had.
    pool = None if case.held_blocks else case.timeline.label(m.CACHE_CONFIG, "kv_cache_memory_bytes")
    return TargetInfo(
        engine=host.engine if host and host.engine else engine.name,
        version=version,
        model=", ".join(models) or None,
        role=source.role or (LAYER if engine.layer else _role(case)),
        pid=host.root if host else None,
        url=source.name if source.kind != KIND else None,
        ranks=case.timeline.ranks,
        gpus=(case.facts["gpu"],) if "gpu" in case.facts else tuple(card.name for card in cards),
        memory=Memory(
            pool=float(pool) if pool and pool.replace(".", "", 1).isdigit() else None,
            used=max((card.used for card in cards if card.used is not None), default=None),
        ),
        uptime_seconds=overview.uptime(case),
    )


def layer_info(line: Timeline) -> TargetInfo:
    """Describe a KV layer or an exporter beside an engine."""
    version = version_range(line.engine, (c.name for c in line.source.columns))
    return TargetInfo(engine=line.engine.name, version=version, role=LAYER, url=line.source.name)
