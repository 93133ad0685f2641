"""Network and offload on the word of a log: what transfers, loads and stores took."""

from __future__ import annotations

import itertools

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.opinion import OF_TTFT, Grade, Opinion, likely, no_data, possible, ruled_out
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Evidence, Gap, Metric
from kvdoctor.service import Objective
from kvdoctor.units import GB, count, duration, percent, rate_bytes

SLOW_LINK = 1.25 * GB
"""Bytes/s below which a transfer runs no faster than 10 Gbit/s Ethernet: TCP, not RDMA."""
DRAM_LIKE = 10 * GB
"""Bytes/s below which a load runs slower than CPU memory over any PCIe 4.0 x16 link (26 GB/s measured)."""
NOTICED = 0.05
"""Seconds of a transfer under which its rate does not matter."""
SLOWER = 5.0
"""Longest of a report's transfers over the shortest, from which they hold one another up."""
HALF = 0.5
"""Share of a transfer that its setup must take before the setup is named."""
HARDLY = 0.05
"""Share of the hits that must be loaded, under which the tier is not needed."""
RISE, ROUNDS = 1.2, 4
"""TTFT of the last round over the first from which it rose, and rounds from which that is a trend."""
HIT_RISE = 0.2
"""Rise of the hit rate over these rounds, as much as a fall that counts (hit_rate)."""
_CLOSER = (
    "bring the instances onto a direct path (RDMA or NVLink inside the container too), then measure the link"
)
_FASTER = "load only where it beats recomputing: a faster tier, prefetch, larger pieces, or no outer tier for this load"
_LARGER = (
    "give the tier more memory (LMCache: max_local_cpu_size), or store less: larger prompts only, one copy"
)
_LOG = Gap(
    "kv tiers", "no line tells of loads", "read the tier's own metrics: tokens, bytes and seconds a load"
)


def transport(view: LogView) -> Opinion | None:
    """Bulk data goes over TCP, or a direct path was ruled out at the start."""
    tcp, off = view.of(lm.TCP), view.of(lm.FAST_PATH_OFF)
    evidence = (
        view.evidence("lines that put bulk data on TCP", len(tcp), threshold=0, of=(lm.TCP,)),
        view.evidence("lines that rule a direct path out", len(off), threshold=0, of=(lm.FAST_PATH_OFF,)),
    )
    if tcp:
        why = "The transport that was chosen for bulk reads and writes is TCP."
        why += " A direct path was ruled out before." if off else ""
        return likely(Bound.NETWORK, "used_badly", why, Grade.PROVEN, evidence, do=_CLOSER)
    if off:
        return possible(Bound.NETWORK, "used_badly", "A direct path between cards was ruled out.", evidence)
    return None


def transfers(view: LogView, objective: Objective) -> Opinion | None:
    """Transfers between instances are long against the objective, or slow against any data-centre link."""
    took, setup, rate = view.mean(lm.TRANSFER_TIME), view.mean(lm.TRANSFER_SETUP), view.mean(lm.TRANSFER_RATE)
    if took is None and rate is None:
        return None
    limit = OF_TTFT * objective.ttft_p95
    evidence = (
        view.evidence("a transfer takes", took, "seconds", threshold=limit, of=(lm.TRANSFER_TIME,)),
        view.evidence("its setup takes", setup, "seconds", of=(lm.TRANSFER_SETUP,)),
        view.evidence("rate of transfers", rate, "bytes/s", threshold=SLOW_LINK, of=(lm.TRANSFER_RATE,)),
        view.evidence("transfers that failed", view.last(lm.ERRORS), threshold=0, of=(lm.ERRORS,)),
    )
    slow = rate is not None and rate < SLOW_LINK
    if took is not None and (took >= limit or (slow and took >= NOTICED)):
        if setup is not None and setup >= HALF * took:
            why = (
                f"A transfer takes {duration(took)}, {percent(setup / took)} of it setup before a byte moves."
            )
        else:
            why = f"A transfer takes {duration(took)}" + (f" at {rate_bytes(rate)}." if rate else ".")
        grade = Grade.MEASURED
        return likely(Bound.NETWORK, "used_badly", why, grade, evidence, do=_CLOSER, metric=Metric.TTFT)
    told = [s.value for s in view.of(lm.TRANSFER_TIME) if "row" in s.labels]
    if told and max(told) >= max(limit, SLOWER * min(told)):
        why = (
            f"The same transfer takes {duration(min(told))} at one time and {duration(max(told))} at another."
        )
        return likely(
            Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=_CLOSER, metric=Metric.TTFT
        )
    ttft = view.last(lm.TTFT)
    if slow and ttft is not None and ttft >= objective.ttft_p95:
        why = f"TTFT is {duration(ttft)}, and transfers run at {rate_bytes(rate or 0.0)}, as over 10 Gbit/s Ethernet."
        return likely(
            Bound.NETWORK, "slow_link", why, Grade.INFERRED, evidence, do=_CLOSER, metric=Metric.TTFT
        )
    if slow:
        why = f"Transfers run at {rate_bytes(rate or 0.0)}, no faster than 10 Gbit/s Ethernet."
        return possible(Bound.NETWORK, "slow_link", why, evidence)
    return ruled_out(Bound.NETWORK, "Transfers are short.", evidence)


def network(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Look at the transport first, then at what the transfers took."""
    for opinion in (transport(view), transfers(view, objective)):
        if opinion is not None:
            return (opinion,)
    cure = "read the connector's transfers: bytes, seconds and failures"
    return (no_data(Bound.NETWORK, "no line tells of transfers between instances", cure),)


def hits_that_cost(view: LogView) -> Opinion | None:
    """TTFT rises together with the hit rate: hits then cost more than they save."""
    ttft, hits = view.of(lm.TTFT), {s.at: s.value for s in view.of(m.HITS_RATE_GAUGE)}
    points = [(hits[s.at], s.value) for s in ttft if s.at in hits]
    if len(points) < ROUNDS or points[-1][0] - points[0][0] < HIT_RISE or points[0][1] <= 0:
        return None
    falls = sum(1 for a, b in itertools.pairwise(points) if b[1] < a[1] or b[0] < a[0])
    if points[-1][1] < RISE * points[0][1] or falls > len(points) // 4:
        return None
    why = (
        f"TTFT rises from {duration(points[0][1])} to {duration(points[-1][1])} while the hit rate rises from "
        f"{percent(points[0][0])} to {percent(points[-1][0])}: fetching hits costs more than they save."
    )
    evidence = (
        view.evidence(
            "TTFT, last over first", points[-1][1] / points[0][1], "x", threshold=RISE, of=(lm.TTFT,)
        ),
        view.evidence("hit rate at the end", points[-1][0], "ratio", of=(m.HITS_RATE_GAUGE,)),
    )
    return likely(Bound.OFFLOAD, "slow_tier", why, Grade.INFERRED, evidence, do=_FASTER, metric=Metric.TTFT)


def _loads(view: LogView, objective: Objective) -> Opinion | None:
    took, rate = view.mean(lm.LOAD_TIME), view.mean(lm.LOAD_RATE)
    if took is None and rate is None:
        return None
    limit, tokens, prefill = OF_TTFT * objective.ttft_p95, view.mean(lm.LOADED), view.mean(lm.PREFILL_RATE)
    again = tokens / prefill if tokens and prefill else None
    evidence = (
        view.evidence("a load takes", took, "seconds", threshold=limit, of=(lm.LOAD_TIME,)),
        view.evidence("rate of a load", rate, "bytes/s", threshold=DRAM_LIKE, of=(lm.LOAD_RATE,)),
        view.evidence("computing the same tokens takes", again, "seconds", of=(lm.LOADED, lm.PREFILL_RATE)),
    )
    if took is not None and (took >= limit or (again is not None and took > again)):
        why = f"A load from the outer tier takes {duration(took)}" + (
            f" at {rate_bytes(rate)}" if rate else ""
        )
        why += (
            f"; computing these tokens takes {duration(again)}."
            if again
            else ", on the path of a first token."
        )
        subclass = "slow_tier" if rate is None or rate < DRAM_LIKE else "no_overlap"
        return likely(Bound.OFFLOAD, subclass, why, Grade.MEASURED, evidence, do=_FASTER, metric=Metric.TTFT)
    return ruled_out(Bound.OFFLOAD, "Loads from the outer tier are short.", evidence)


def needed(view: LogView) -> float | None:
    """Share of an outer tier's hits that had to be loaded; None where no line tells."""
    hit, need = sum(view.values(lm.TIER_HIT)), sum(view.values(lm.TIER_NEED))
    return need / hit if hit and view.of(lm.TIER_NEED) else None


def _unused(view: LogView) -> Opinion | None:
    """The tier is written to and never read, or holds what the GPU's own cache holds too."""
    share, refused = needed(view), len(view.of(lm.TIER_FULL))
    evidence = (
        view.evidence("stores that found no room", refused, threshold=0, of=(lm.TIER_FULL,)),
        view.evidence("stores", len(view.of(lm.STORED)), of=(lm.STORED,)),
        view.evidence("loads", len(view.of(lm.LOADED)), of=(lm.LOADED,)),
        view.evidence("a store takes", view.mean(lm.STORE_TIME), "seconds", of=(lm.STORE_TIME,)),
        view.evidence("rate of a store", view.mean(lm.STORE_RATE), "bytes/s", threshold=DRAM_LIKE,
                      of=(lm.STORE_RATE,)),
        view.evidence("leading tokens that the tier held already", view.last(lm.SKIPPED), "tokens",
                      of=(lm.SKIPPED,)),
    )  # fmt: skip
    if share is not None and share < HARDLY:
        more = (view.evidence("share of its hits that must be loaded", share, "ratio", threshold=HARDLY,
                              of=(lm.TIER_HIT, lm.TIER_NEED)),)  # fmt: skip
        return ruled_out(
            Bound.OFFLOAD, "The GPU's own prefix cache holds what the tier holds.", evidence + more
        )
    if refused and not view.of(lm.LOADED):
        why = f"The tier had no room for what {count(refused)} stores brought: what it should hold is lost or late."
        return likely(Bound.OFFLOAD, "tier_full", why, Grade.INFERRED, evidence, do=_LARGER)
    stores = view.of(lm.STORED) or view.of(lm.STORE_TIME)
    if not stores or view.of(lm.LOADED) or view.of(lm.LOAD_TIME):
        return None
    if view.of(lm.SKIPPED):
        why = (
            f"Prompts that repeat are stored again and again at their end ({count(len(stores))} stores), and "
            "nothing is ever loaded: the tier costs time and gives none."
        )
        return likely(Bound.OFFLOAD, "small_pieces", why, Grade.INFERRED, evidence, do=_FASTER)
    return possible(Bound.OFFLOAD, None, "The tier is written to; no load was seen yet.", evidence, _LOG)


def offload(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Look at what hits cost, at loads, and at a tier that nobody reads."""
    for opinion in (hits_that_cost(view), _loads(view, objective), _unused(view)):
        if opinion is not None:
            return (opinion,)
    return (no_data(Bound.OFFLOAD, _LOG.reason, _LOG.cure),)


def facts(view: LogView) -> tuple[Evidence, ...]:
    """Return what the tier's lines say in sum, for a report that names no cause."""
    return (
        view.evidence(
            "share of a tier's hits that must be loaded", needed(view), "ratio", of=(lm.TIER_NEED,)
        ),
    )
