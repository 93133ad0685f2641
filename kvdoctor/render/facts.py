"""One line on each thing that a report looks at: engine, memory, window, objective, roof, sums, cost."""

from __future__ import annotations

from kvdoctor.model import Diagnosis
from kvdoctor.render.text import name
from kvdoctor.service import TargetInfo, Window
from kvdoctor.units import count, counted, duration, gb, gib, moment, rate_bytes


def target(item: TargetInfo) -> str:
    """Write one line on one engine: what it is, what it serves, where it runs, since when."""
    words = [" ".join(name(word) for word in (item.engine, item.version) if word)]
    words.append(name(item.model) if item.model else "model unknown")
    words += [f"role {name(item.role)}"] if item.role else []
    words += [", ".join(name(gpu) for gpu in item.gpus)] if item.gpus else []
    words += [f"ranks {', '.join(name(rank) for rank in item.ranks)}"] if len(item.ranks) > 1 else []
    words += [f"pid {item.pid}"] if item.pid is not None else []
    words += [f"up {duration(item.uptime_seconds)}"] if item.uptime_seconds is not None else []
    words += [name(item.url)] if item.url else []
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
    words = [head, counted(item.requests, "first token"), f"{counted(item.finished, 'request')} finished"]
    words += [f"{counted(item.prompt_tokens, 'prompt token')} in"] if item.prompt_tokens else []
    words += [f"{counted(item.generated_tokens, 'token')} out"] if item.generated_tokens else []
    words += [counted(item.scrapes, "reading")] if item.scrapes and not item.lifetime else []
    words += [f"{counted(item.restarts, 'restart')} inside"] if item.restarts else []
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
    impossible = point.achieved_low > point.bandwidth
    doubt = " That is not possible: the model or the card is not the one that was told." if impossible else ""
    return (
        f"A decode step takes {duration(point.step_seconds)}; "
        f"its bytes alone need {duration(point.floor_seconds)}. It reads {reads} "
        f"under a ceiling of {rate_bytes(point.bandwidth)} ({name(point.bandwidth_basis)}), "
        f"at batch {count(point.batch)} and {count(point.context)} tokens of context.{doubt}"
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
