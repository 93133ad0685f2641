"""How the answer's names are said to people: the same words in every report."""

from __future__ import annotations

from kvdoctor.model import (
    Advice,
    Basis,
    Bound,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Ledger,
    Metric,
    State,
    Verdict,
)
from kvdoctor.render.text import clean
from kvdoctor.render.text import name as short_name
from kvdoctor.service import Headline, Quantile
from kvdoctor.units import counted, duration, quantity

BASIS: dict[Basis, str] = {
    Basis.MEASURED: "measured",
    Basis.MODELLED: "modelled",
    Basis.RESIDUAL: "the rest",
    Basis.UPPER_BOUND: "at most",
}
BASIS_MEANING = (
    "measured: from the engine's counters. modelled: worked out from sizes and rates. "
    "the rest: what the other parts leave. at most: the part lies between nothing and this."
)
VERDICT: dict[Verdict, str] = {
    Verdict.LIKELY: "likely",
    Verdict.POSSIBLE: "possible",
    Verdict.RULED_OUT: "ruled out",
    Verdict.NO_DATA: "no data",
}
STATE: dict[State, str] = {
    State.BOUND: "Bound",
    State.HEALTHY: "Healthy",
    State.IDLE: "Idle",
    State.STALLED: "Stalled",
    State.INSUFFICIENT: "Not enough evidence to name a bound",
}
METRIC: dict[str, str] = {Metric.TTFT.value: "TTFT", Metric.ITL.value: "ITL"}
METRIC_MEANING: dict[str, str] = {
    Metric.TTFT.value: "time to first token",
    Metric.ITL.value: "time between tokens",
}
OBSERVATIONS: dict[str, str] = {Metric.TTFT.value: "first token", Metric.ITL.value: "output gap"}
_ACRONYMS = {"kv": "KV", "hbm": "HBM", "ttft": "TTFT", "itl": "ITL", "cpu": "CPU", "gpu": "GPU"}


def bound_name(bound: Bound | str, subclass: str | None) -> str:
    """Write a bound with its subclass, by the names that the JSON has: `capacity / preemption`."""
    name = short_name(bound.value if isinstance(bound, Bound) else bound)
    return f"{name} / {short_name(subclass)}" if subclass else name


def verdict(diagnosis: Diagnosis) -> str:
    """Say the verdict in a few words: the bound, or the state and what paces it."""
    if diagnosis.primary is not None:
        return f"Bound by {bound_name(diagnosis.primary, diagnosis.subclass)}"
    words = STATE[diagnosis.state]
    return f"{words}, paced by {short_name(diagnosis.paced_by)}" if diagnosis.paced_by else words


def headline(diagnosis: Diagnosis) -> str:
    """Say the verdict with the family and how sure it is."""
    family = f" (family {diagnosis.family})" if diagnosis.family else ""
    return f"{verdict(diagnosis)}{family}, {diagnosis.confidence.value} confidence"


def reason(diagnosis: Diagnosis) -> str:
    """Return the summary without what the headline above it says already: the verdict's name, the confidence."""
    said = clean(diagnosis.summary)
    opening, colon, rest = said.partition(": ")
    named = (diagnosis.primary or diagnosis.state).value.replace("_", " ")
    bound = opening.lower().startswith((f"bound by {named}", f"bound by {diagnosis.primary_name}"))
    kept = rest if colon and (bound or opening.lower() == named) else said
    return kept[:1].upper() + kept[1:].replace(f" ({diagnosis.confidence.value} confidence)", "")


def beside(diagnosis: Diagnosis) -> str:
    """Say what else sets or shares the pace, empty when nothing does."""
    words = []
    if diagnosis.primary is not None and diagnosis.paced_by not in (None, diagnosis.primary.value):
        words.append(f"Paced by {short_name(diagnosis.paced_by or '')}")
    if diagnosis.contributing:
        names = ", ".join(bound_name(*pair) for pair in diagnosis.contributing)
        words.append(f"Contributing: {names}")
    return "; ".join(words)


def metric_verdict(diagnosis: Diagnosis, metric: str) -> str:
    """Name what one latency is bound by, or the state it is in."""
    name = diagnosis.primary_by_metric.get(metric)
    if name is None:
        return "not judged"
    if name in {state.value for state in State}:
        return name.replace("_", " ")
    return bound_name(name, diagnosis.subclass_by_metric.get(metric))


def metric_sentence(diagnosis: Diagnosis, metric: str) -> str:
    """Say one latency's verdict and why."""
    return f"{metric_verdict(diagnosis, metric)}. {metric_reason(diagnosis, metric)}".strip()


def metric_reason(diagnosis: Diagnosis, metric: str) -> str:
    """Return one latency's sentence without the latency's name, which stands before it."""
    return clean(diagnosis.sentences.get(metric, "")).removeprefix(METRIC[metric]).lstrip(": ")


def part_name(name: str) -> str:
    """Write a ledger part's name for people: `kv_wait` becomes `KV wait`."""
    return " ".join(_ACRONYMS.get(word, word) for word in short_name(name).replace("_", " ").split())


def quantile(bounds: Quantile) -> str:
    """Write the bucket that a quantile lies in."""
    if bounds.high == float("inf"):
        return f"over {duration(bounds.low)}"
    if bounds.low <= 0:
        return f"under {duration(bounds.high)}"
    if bounds.low == bounds.high:
        return duration(bounds.low)
    return f"{duration(bounds.low)} to {duration(bounds.high)}"


def ledger_title(ledger: Ledger) -> str:
    """Say what a ledger is of: its mean and over how many observations."""
    metric = ledger.metric.value
    seen = counted(ledger.count, OBSERVATIONS[metric])
    return f"{METRIC[metric]} ({METRIC_MEANING[metric]}): mean {duration(ledger.seconds)} over {seen}"


def quantile_line(diagnosis: Diagnosis, metric: str) -> str:
    """Write a latency's quantiles with the bounds of their buckets, empty when there are none."""
    named = diagnosis.quantiles.get(metric, {})
    return "; ".join(f"{short_name(name)} {quantile(bounds)}" for name, bounds in named.items())


def value(item: Evidence) -> str:
    """Write a piece of evidence's value."""
    return "undefined" if item.value is None else quantity(item.value, short_name(item.unit))


def threshold(item: Evidence) -> str:
    """Write the value that a piece of evidence is held against, empty when it is context."""
    return "" if item.threshold is None else quantity(item.threshold, short_name(item.unit))


def against(item: Evidence) -> str:
    """Say the threshold of a piece of evidence, empty when it is context."""
    return f"threshold {threshold(item)}" if item.threshold is not None else ""


def weight(finding: Finding) -> str:
    """Say what a cause costs and what undoing it would give back, empty when neither is known."""
    mostly = f", mostly {METRIC[finding.metric.value]}" if finding.metric else ""
    words = []
    if finding.share_seconds > 0:
        words.append(f"Explains {duration(finding.share_seconds)} of a request{mostly}.")
    if finding.recoverable_seconds is not None:
        words.append(f"Undoing it would give back {duration(finding.recoverable_seconds)}.")
    return " ".join(words)


def cause(finding: Finding) -> str:
    """Name a cause with what is known about it."""
    return f"{bound_name(finding.bound, finding.subclass)}, {VERDICT[finding.verdict]}"


def because(finding: Finding) -> str:
    """Say in one line why a cause was ruled out: its sentence and the number that spoke most."""
    numbers = [
        ", ".join(filter(None, (f"{short_name(item.name)} {value(item)}", against(item))))
        for item in finding.evidence[:1]
        if item.value is not None
    ]
    return " ".join(
        word for word in (clean(finding.argument), *(f"({number})" for number in numbers)) if word
    )


def changes(diagnosis: Diagnosis) -> str:
    """Head the list of advice: what is healthy need not be changed."""
    if diagnosis.state is State.HEALTHY:
        return "Nothing has to change; what would still gain"
    return "What to change, by expected gain"


def gain(item: Advice) -> str:
    """Say what a change would buy in a request and how that is known."""
    if item.gain_seconds is None:
        return f"Gain unknown ({BASIS[item.basis]})"
    if item.basis is Basis.UPPER_BOUND:
        return f"Saves at most {duration(item.gain_seconds)} of a request"
    return f"Saves {duration(item.gain_seconds)} of a request ({BASIS[item.basis]})"


def headline_value(line: Headline, reading: float | None) -> str:
    """Write one cell of the header table."""
    return "undefined" if reading is None else quantity(reading, short_name(line.unit))


def gap(item: Gap) -> str:
    """Write a gap without its cure."""
    return f"{short_name(item.source)}: {clean(item.reason)}"
