"""How fast an engine really prefills: from one prompt sent as a miss, else from its own histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvdoctor import metrics as m
from kvdoctor.commands.probe_counted import mean_of
from kvdoctor.commands.probe_hits import cached as cached_of
from kvdoctor.secrets import key_of
from kvdoctor.units import count, counted, duration

LEAST = 1.0
"""Tokens that a mean request must have computed: below that nothing was prefilled."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """The mean prefill of some requests."""

    computed: float
    """Tokens that were computed."""
    cached: float
    """Tokens before them that were not."""
    seconds: float
    source: str
    """Which requests, and who timed them, for people."""

    @property
    def says(self) -> str:
        """Say what was measured."""
        rate = count(round(self.computed / self.seconds))
        each = f"{count(round(self.computed))} tokens in {duration(self.seconds)}"
        return f"measured: {rate} tokens/s, {each} ({self.source})"


def measured(
    results: Sequence[Mapping[str, Any]], url: str | None, *, is_given: bool = True
) -> Prefill | None:
    """Return the prefill of the miss among the results, else of the engine at a metrics page; None without either."""
    found = of_request(results)
    if found is None and url is not None:
        found = of_engine(url, key_of() if is_given else None)
    return found


def of_request(results: Sequence[Mapping[str, Any]]) -> Prefill | None:
    """Return the prefill of the `request` probe's miss: the engine's own time where it counts it, else TTFT.

    Where others ran meanwhile the engine's time is a mean over theirs, and TTFT is taken.
    """
    rows = [row for r in results if r.get("probe") == "request" for row in r.get("rows", ())]
    miss = next((row for row in rows if row["op"] == "miss"), None)
    if miss is None or not miss["prompt_tokens"]:
        return None
    known = next(cached_of(miss))
    cached = known.tokens or 0.0
    computed = miss["prompt_tokens"] - cached
    if computed < LEAST:
        return None
    seconds = None if known.others else mean_of(miss["counted"], m.PREFILL)
    if seconds:
        return Prefill(computed, cached, seconds, "the miss of `request`, by the engine's prefill counter")
    return Prefill(computed, cached, miss["ttft_seconds"], "TTFT of `request`'s miss: an upper bound")


def of_engine(url: str, key: str | None = None) -> Prefill | None:
    """Return the mean prefill since the engine started; None where it tells none, or does not answer."""
    from kvdoctor.clock import SystemClock
    from kvdoctor.collectors.prometheus import Endpoint
    from kvdoctor.record import record

    recording = record([Endpoint(url, api_key=key)], seconds=0, interval_s=1.0, clock=SystemClock())
    source = next((source for source in recording.sources if source.at), None)
    return of_source(source) if source is not None else None


def of_source(source: Any) -> Prefill | None:
    """Return the mean prefill since the start, from the last reading of one engine's page."""
    from kvdoctor.engines import recognise
    from kvdoctor.timeline import Timeline
    from kvdoctor.traffic import traffic

    engine = recognise(column.name for column in source.columns)
    if engine is None:
        return None
    life = Timeline(source, engine, -1, len(source.at) - 1)
    seen, own = traffic(life), life.histogram(m.REQUEST_COMPUTED)
    if seen.prefill is None or not seen.prefill.count or not seen.prefill.total:
        return None
    requests = seen.prefill.count
    length = life.histogram(m.PROMPT_LENGTH)
    whole = (
        length.total / length.count if length is not None and length.count else seen.prompt_tokens / requests
    )
    if own is not None and own.count:
        computed = own.total / own.count
    elif seen.computed is not None:
        computed = seen.computed / requests
    else:
        computed = whole - (seen.hits or 0.0) / requests
    if computed < LEAST:
        return None
    who = f"prefill histogram of {counted(round(requests), 'request')} since the engine started"
    return Prefill(computed, max(0.0, whole - computed), seen.prefill.total / requests, who)
