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
    Headline,
    Ledger,
    Metric,
    Quantile,
    State,
    TargetInfo,
    Verdict,
    Window,
)
from kvdoctor.render.text import clean
from kvdoctor.render.text import name as short_name
from kvdoctor.units import count, duration, gb, gib, moment, quantity, rate_bytes

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
OBSERVATIONS: dict[str, str] = {Metric.TTFT.value: "first tokens", Metric.ITL.value: "output gaps"}
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
    return f"{metric_verdict(diagnosis, metric)}. {clean(diagnosis.sentences.get(metric, ''))}".strip()


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
    seen = f"{count(ledger.count)} {OBSERVATIONS[metric]}"
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
    """Say what a piece of evidence is held against, empty when it is context."""
    return f"against {threshold(item)}" if item.threshold is not None else ""


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
        f"{short_name(item.name)} {value(item)} {against(item)}".strip() for item in finding.evidence[:1]
    ]
    return " ".join(
        word for word in (clean(finding.argument), *(f"({number})" for number in numbers)) if word
    )


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


def target(item: TargetInfo) -> str:
    """Write one line on one engine: what it is, what it serves, where it runs, since when."""
    words = [" ".join(short_name(word) for word in (item.engine, item.version) if word)]
    words.append(short_name(item.model) if item.model else "model unknown")
    words += [f"role {short_name(item.role)}"] if item.role else []
    words += [", ".join(short_name(gpu) for gpu in item.gpus)] if item.gpus else []
    words += [f"ranks {', '.join(short_name(rank) for rank in item.ranks)}"] if len(item.ranks) > 1 else []
    words += [f"pid {item.pid}"] if item.pid is not None else []
    words += [f"up {duration(item.uptime_seconds)}"] if item.uptime_seconds is not None else []
    words += [short_name(item.url)] if item.url else []
    return ", ".join(words)


def memory(item: TargetInfo) -> str:
    """Write what a card's memory is used for, empty when nothing is known."""
    named = (
        ("weights", item.memory.weights),
        ("KV pool", item.memory.pool),
        ("in use", item.memory.used),
        ("free", item.memory.free),
    )
    return ", ".join(f"{name} {gib(size)}" for name, size in named if size is not None)


def window(item: Window) -> str:
    """Say which stretch of time the answer is about."""
    if item.lifetime:
        head = (
            f"One reading, {moment(item.start)}: every figure is a sum since the engine started, not a window"
        )
    else:
        head = f"{duration(item.seconds)} from {moment(item.start)}"
    words = [head, f"{count(item.requests)} first tokens", f"{count(item.finished)} requests finished"]
    words += [f"{count(item.prompt_tokens)} prompt tokens in"] if item.prompt_tokens else []
    words += [f"{count(item.generated_tokens)} tokens out"] if item.generated_tokens else []
    words += [f"{item.scrapes:,} readings"] if item.scrapes and not item.lifetime else []
    words += [f"{item.restarts} restart{'s' if item.restarts > 1 else ''} inside"] if item.restarts else []
    return ", ".join(words)


def objective(diagnosis: Diagnosis) -> str:
    """Say what the service is held to and who said so."""
    asked = diagnosis.objective
    origin = "as stated" if asked.stated else "the default, state yours with --slo"
    return f"TTFT p95 {duration(asked.ttft_p95)}, ITL p95 {duration(asked.itl_p95)} ({origin})"


def roofline(diagnosis: Diagnosis) -> str:
    """Say where the decode step stands under the memory roof, empty when no ceiling is known."""
    point = diagnosis.roofline
    if point is None:
        return ""
    low, high = rate_bytes(point.achieved_low), rate_bytes(point.achieved_high)
    reads = low if low == high else f"{low} to {high}"
    return (
        f"A decode step takes {duration(point.step_seconds)}; "
        f"its bytes alone need {duration(point.floor_seconds)}. It reads {reads} "
        f"under a ceiling of {rate_bytes(point.bandwidth)} ({short_name(point.bandwidth_basis)}), "
        f"at batch {count(point.batch)} and {count(point.context)} tokens of context."
    )


def sums(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """Return the three sums that get confused, each with what it is."""
    three = diagnosis.sums
    if three is None:
        return ()
    saved, read, load = three.prefill_saved_seconds, three.decode_read_bytes, three.load_seconds
    return (
        ("unknown" if saved is None else duration(saved), "of prefill that prefix hits save each request"),
        (
            "unknown" if read is None else gb(read),
            "of KV that a decode step reads, hits or not: a hit saves none of it",
        ),
        (
            "unknown" if load is None else duration(load),
            "that each request spends loading hits from elsewhere",
        ),
    )


def cost(diagnosis: Diagnosis) -> str:
    """Say what observing cost the host."""
    paid = diagnosis.cost
    return (
        f"{duration(paid.cpu_seconds)} of CPU, {gb(paid.bytes)} read, "
        f"longest reading {duration(paid.longest_read_seconds)}"
    )
