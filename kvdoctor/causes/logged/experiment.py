"""What a report's comparisons say: the same figure with one thing changed, or under growing load."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.features import FEATURES, REMOTE, TIER
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound, Metric
from kvdoctor.quantity import Quantity
from kvdoctor.service import Objective
from kvdoctor.units import duration, percent

WORSE = 1.2
"""TTFT with a hit over TTFT without, from which the hit is a loss and not noise."""
CHANGED = 1.5
"""Ratio of two figures from which the one thing changed between them matters."""
SAME = 1.1
"""Ratio below which switching a feature changes nothing."""
HIT_DROP = 0.2
"""Drop of the hit rate, absolute, that counts where one thing was changed (hit_rate's fall)."""
LOADS, SLOPE = 3, 0.6
"""Loads from which a course is one; growth of log TTFT over log load from which TTFT follows the load."""
COLD = re.compile(r"\bcold\b|no cache|\bmiss\b|without (the )?(cache|prefix)|recomput|uncached|first request")
HIT = re.compile(r"\bhit\b|\bwarm\b|\bcached\b|from (the )?(cache|cpu|disk|ssd)")
_SIDES = re.compile(
    r"\b(on|off|with|without|no|enabled?|disabled?|default|baseline|before|the|and|new|old|vs)\b|\bk \d+\b"
)
_NUMBERS = re.compile(r"\b([a-z]|[\d.]+)(?=\s|$)")
"""What names a side, and not a thing."""
_MEASURE = re.compile(r"\b(prefill|decode|scheduling|tokenizer) (rate|throughput|speed|time)\b")
"""What is measured, not what was changed."""
_NEGATED = re.compile(r"\b(without|no|off|disabled?|skip|bypass|not)\b")
_TIMES: tuple[Quantity, ...] = (lm.TTFT, lm.ITL, lm.WALL, lm.REQUEST_TIME)
_RATES: tuple[Quantity, ...] = (lm.DECODE_RATE, lm.GENERATION_RATE, lm.PREFILL_RATE, lm.SERVED)
_UNDO = "change that one thing back, or keep it only where it helps"


def words(said: Said) -> str:
    """Return the name of a figure in lower case with blanks between its words."""
    return re.sub(r"[\s_:,#-]+", " ", said.labels.get("as", "").lower())


def _tokens(said: Said) -> frozenset[str]:
    return frozenset(words(said).split())


def hit_is_a_loss(view: LogView) -> Opinion | None:
    """A request that hits waits longer for its first token than one that computes all (rule 15)."""
    ttft = view.of(lm.TTFT)
    cold = [s for s in ttft if COLD.search(words(s))]
    warm = [s for s in ttft if HIT.search(words(s)) and s not in cold]
    if not cold or not warm:
        return None
    before, now = min(s.value for s in cold), max(s.value for s in warm)
    if now < WORSE * before:
        return None
    remote = any(REMOTE.search(words(s)) for s in warm)
    bound = Bound.NETWORK if remote else Bound.OFFLOAD
    why = f"A hit brings the first token after {duration(now)}, computing all of it after {duration(before)}."
    evidence = (
        view.evidence("TTFT of a hit over TTFT without", now / before, "x", threshold=WORSE, of=(lm.TTFT,)),
    )
    do = "recompute where that is quicker; else a faster path to the tier, larger pieces, batched reads"
    subclass = "used_badly" if remote else "slow_tier"
    return likely(bound, subclass, why, Grade.PROVEN, evidence, do=do, metric=Metric.TTFT)


def _pairs(view: LogView, quantities: Iterable[Quantity]) -> Iterable[tuple[Quantity, Said, Said]]:
    """Pairs of figures of one quantity whose names differ, and that were taken under the same load."""
    for quantity in quantities:
        rows = [s for s in view.of(quantity) if s.labels.get("row")]
        for a, b in itertools.combinations(rows, 2):
            if words(a) != words(b) and all(_alike(a, b, key) for key in ("load", "length")):
                yield quantity, a, b


def _alike(a: Said, b: Said, key: str) -> bool:
    """Say whether two figures were taken under one condition: the same is told, or one says `same` of the other."""
    one, other = a.labels.get(key), b.labels.get(key)
    return one == other or any(said.labels.get(key) is None and "same" in _tokens(said) for said in (a, b))


def _feature(worse: Said, better: Said) -> tuple[Bound, str | None, str, bool] | None:
    """Name the one feature that two names differ in and that costs; None where they differ in something else too."""
    differ = _tokens(worse) ^ _tokens(better)
    told = {s.labels.get(key) for s in (worse, better) for key in ("load", "length")}
    if any(token.isdigit() and token not in told for token in differ):
        return None
    text = " ".join(w for s in (worse, better) for w in words(s).split() if w in differ)
    both = " ".join(_tokens(worse) & _tokens(better))
    if not _NUMBERS.sub("", _SIDES.sub("", text)).strip() or (_NEGATED.search(text) and TIER.search(both)):
        text = _MEASURE.sub("", words(worse))
    for pattern, bound, subclass, costs in FEATURES:
        if re.search(pattern, text):
            return (bound, subclass, text, costs) if not costs or _has(worse, better, pattern) else None
    return None


def _has(worse: Said, better: Said, pattern: str) -> bool:
    """Say whether the worse side is the one with the feature: it names it, or the better one negates it."""
    if _NEGATED.search(words(worse)) and not _NEGATED.search(words(better)):
        return False
    named = bool(re.search(pattern, words(worse)))
    return named or bool(re.search(pattern, words(better)) and _NEGATED.search(words(better)))


def _ordered(quantity: Quantity, a: Said, b: Said) -> tuple[Said, Said]:
    """Return the worse and the better of two figures."""
    return (b, a) if (a.value < b.value) == (quantity in _TIMES) else (a, b)


def one_thing_changed(view: LogView) -> Opinion | None:
    """Two runs differ in one thing, and in their latency or rate by much: that thing is the cause."""
    pairs = ((q, *_ordered(q, a, b)) for q, a, b in _pairs(view, (*_TIMES, *_RATES)))
    found = [(q, a, b, f) for q, a, b in pairs if (f := _feature(a, b)) is not None]
    best = max(found, key=lambda each: _ratio(each[1], each[2]), default=None)
    if best is None or _ratio(best[1], best[2]) < (WORSE if best[3][3] else CHANGED):
        return None
    quantity, a, b, (bound, subclass, differ, _) = best
    ratio = _ratio(a, b)
    evidence = (view.evidence(f"{quantity.meaning}: one side over the other", ratio, "x", threshold=CHANGED,
                              of=(quantity,)),)  # fmt: skip
    why = f"The same figure changes {ratio:.1f}-fold where two runs differ in: {differ}."
    weak = ratio < CHANGED or (bound is Bound.COMPUTE and subclass is None)
    grade = Grade.INFERRED if weak else Grade.PROVEN
    return likely(bound, subclass, why, grade, evidence, do=_UNDO)


def _ratio(a: Said, b: Said) -> float:
    low, high = sorted((a.value, b.value))
    return high / low if low > 0 else 0.0


def caching_does_nothing(view: LogView) -> Opinion | None:
    """Switching prefix caching changes nothing in one run, and much in another that shares as much."""
    pairs = [(a, b) for _, a, b in _pairs(view, _TIMES) if _toggles_caching(a, b)]
    same = [pair for pair in pairs if _ratio(*pair) < SAME]
    other = [pair for pair in pairs if _ratio(*pair) >= CHANGED]
    if not same or not other:
        return None
    evidence = (
        view.evidence("run without caching over run with", _ratio(*same[0]), "x", threshold=SAME, of=_TIMES),
    )
    why = "Switching prefix caching changes nothing here, and much in a control run: nothing is reused."
    do = "make the shared prefix longer than the piece that can hit, or use a model or release with smaller ones"
    return likely(Bound.HIT_RATE, "short_prefix", why, Grade.PROVEN, evidence, do=do, metric=Metric.TTFT)


def _toggles_caching(a: Said, b: Said) -> bool:
    return (
        "caching" in words(a)
        and bool(_tokens(a) ^ _tokens(b))
        and not _tokens(a) ^ _tokens(b) - {"on", "off"}
    )


_ROUTED = re.compile(r"rout|round robin|load balanc|sticky|affinity")


_RELEASE = re.compile(r"\b(releases?|versions?|v?\d+\.\d+)\b")
_NEGATIONS = frozenset(("not", "no", "never", "non"))
_SWITCHES = frozenset(
    (
        "with",
        "without",
        "on",
        "off",
        "enabled",
        "disabled",
        "before",
        "after",
        "since",
        "old",
        "new",
        "upgrade",
    )
)


def hit_rate_fell(view: LogView) -> Opinion | None:
    """The hit rate is much lower with one thing changed."""
    for _, a, b in _pairs(view, (m.HITS_RATE_GAUGE,)):
        differ = _tokens(a) ^ _tokens(b)
        routed = bool(_ROUTED.search(" ".join(w for s in (a, b) for w in words(s).split() if w in differ)))
        changed = (
            routed
            or differ & (_SWITCHES | _NEGATIONS)
            or (_RELEASE.search(words(a)) and _RELEASE.search(words(b)))
        )
        if abs(a.value - b.value) >= HIT_DROP and changed:
            high, low = max(a.value, b.value), min(a.value, b.value)
            why = f"With one thing changed, the hit rate is {percent(low)} in place of {percent(high)}."
            evidence = (
                view.evidence("hit rate", low, "ratio", threshold=high - HIT_DROP, of=(m.HITS_RATE_GAUGE,)),
            )
            name = "routing" if routed else "fell"
            return likely(Bound.HIT_RATE, name, why, Grade.PROVEN, evidence, do=_UNDO, metric=Metric.TTFT)
    return None


def scaling(view: LogView, objective: Objective) -> Opinion | None:
    """TTFT grows with the number of clients as if they were served one after the other."""
    points = sorted((float(s.labels["load"]), s.value) for s in view.of(lm.TTFT) if s.labels.get("load"))
    if len({load for load, _ in points}) < LOADS or points[0][1] <= 0 or points[-1][1] <= objective.ttft_p95:
        return None
    (few, first), (many, last) = points[0], points[-1]
    if few <= 0 or many <= few or math.log(last / first) / math.log(many / few) < SLOPE:
        return None
    one = (last - first) / (many - few)
    why = (
        f"From {few:.0f} to {many:.0f} clients TTFT grows from {duration(first)} to {duration(last)}: "
        f"{duration(one)} for each more, as in a line served one by one."
    )
    evidence = (view.evidence("TTFT at the highest load", last, "seconds", threshold=objective.ttft_p95,
                              of=(lm.TTFT,)),)  # fmt: skip
    do = "add capacity to the stage that serves one by one (prefill workers, larger prefill batches)"
    return likely(Bound.QUEUEING, "arrivals", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask every kind of comparison."""
    asked = (
        hit_is_a_loss(view),
        caching_does_nothing(view),
        hit_rate_fell(view),
        one_thing_changed(view),
        scaling(view, objective),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
