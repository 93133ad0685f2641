"""The roofline's answer on a terminal: 80 columns, plain text, the answer first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from kvdoctor.render import roofline_words as words
from kvdoctor.render.roofline_curves import text_curves
from kvdoctor.render.roofline_plot import bar
from kvdoctor.render.roofline_widening import part_rows, why_not_more, widening_head, widening_title
from kvdoctor.render.text import clean
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.report import Report, Sweep
from kvdoctor.roofline.step import Limit
from kvdoctor.roofline.whatif import Side
from kvdoctor.units import count, gb, gib

WIDTH = 80
_NOTE_MARK = " *"


def wrapped(text: str, *, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most 80 columns."""
    start = indent if first is None else first
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns as wide as they need; the first flush left, the others flush right."""
    every = [list(head)] * any(head) + [list(row) for row in rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(head))]
    out = []
    for row in every:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        out.append(("  " + "  ".join(cells)).rstrip())
    return out


def _memory(answer: Answer) -> list[str]:
    """What lies in the memory of one rank."""
    fit, question = answer.fit, answer.question
    rows = [
        ("weights", gib(fit.weights), gb(fit.weights)),
        (f"{words.kv_name(answer)}, {words.load_name(answer)}", gib(fit.live), gb(fit.live)),
    ]
    if fit.card is not None and fit.usable is not None:
        rows.append(
            (
                f"usable ({question.utilization:.0%} of {words.memory_name(answer)})",
                gib(fit.usable),
                gb(fit.usable),
            )
        )
    out = ["Memory of one rank", *table(("", "", ""), rows)]
    if fit.card:
        kv = fit.live - fit.state
        cells = bar(
            (("W", fit.weights), ("K", kv), ("S", fit.state)), max(fit.card, fit.weights + fit.live), width=70
        )
        out.append(f"  [{cells}]")
        state = ", S state" if fit.state else ""
        out.append(f"   W weights, K KV{state}, . rest of {words.memory_name(answer)}")
    per_token = f"KV grows by {gib(answer.kv_per_token)} ({count(answer.kv_per_token)} B) a token"
    state = f"; a state of {gib(answer.state_per_sequence)} a sequence" if answer.state_per_sequence else ""
    out += wrapped(f"{per_token}; {words.both(answer.kv_per_sequence)} a sequence{state}.", indent="  ")
    pool = fit.pool
    if pool is not None:
        text = (
            f"Pool of {words.both(pool.bytes)}: {pool.blocks:,} blocks of {question.storage.block_size}, "
            f"{pool.tokens:,} tokens, {pool.sequences:,} such sequences ({fit.basis})."
        )
        out += wrapped(text, indent="  ")
    return out


def _step(answer: Answer) -> list[str]:
    """Bytes and seconds of one step, by part."""
    decode, step = answer.decode, answer.decode.step
    moved = decode.bytes
    sizes: dict[Limit, float] = {"weights": moved.weights, "kv": moved.kv, "state": moved.state}
    rows = []
    for part, name in words.PARTS.items():
        size, time = sizes.get(part), step.seconds_by_part[part] if step else None
        what = words.flops(decode.flops) if part == "compute" else ("" if size is None else gb(size))
        if size or time or part in ("weights", "compute"):
            mark = _NOTE_MARK if part in ("collectives", "latency") else ""
            rows.append(
                (name + mark, gib(size) if size is not None else "", what, words.part_seconds(step, part))
            )
    if decode.draft_seconds:
        rows.append(("draft steps", "", "", words.seconds(decode.draft_seconds)))
    rows.append(
        (
            "floor" if step else "in all",
            gib(moved.total),
            gb(moved.total),
            words.seconds(decode.seconds_floor),
        )
    )
    head = "One verify step of one rank" if answer.question.drafted else "One decode step of one rank"
    out = [head, *table(("", "", "", "alone takes"), rows)]
    if any(row[0].endswith(_NOTE_MARK) for row in rows):
        out.append("  * in the expectation only, not in the floor")
    if limit := words.limit_line(answer):
        out += wrapped(limit, indent="  ")
    if decode.basis:
        out += wrapped(f"Expectation: {decode.basis}.", indent="  ")
    return out


def _first_token(answer: Answer) -> list[str]:
    """TTFT of a miss and of a hit, and fetching against computing again."""
    first = answer.first_token
    if first.floor is None or first.tokens <= 0:
        return []
    out = [f"Time to first token, {first.tokens:,.0f} tokens (queueing comes on top)"]
    expected = f", {words.seconds(first.expected_seconds)} expected"
    if first.expected_seconds is None:
        expected = f" {words.UNCOUNTED}"
    out += wrapped(
        f"miss, {words.flops(first.flops)} of prefill: at least {words.seconds(first.miss_seconds)}{expected}.",
        indent="  ",
    )
    out += wrapped(
        f"{words.hit_name(answer)}, {first.hit_tokens:,.0f} tokens computed: at least "
        f"{words.seconds(first.hit_seconds)}.",
        indent="  ",
    )
    if not answer.places:
        return out
    rows = [
        (
            ("+ " if place.fetch_seconds < place.recompute_seconds else "  ") + place.tier.name,
            f"{place.tier.measured / 1e9:,.4g}",
            words.seconds(place.fetch_seconds),
            words.break_even(place),
            words.even_rate(place),
        )
        for place in answer.places
    ]
    out += ["", *wrapped(words.fetch_title(answer))]
    out += table(("  prefix in", "GB/s", "fetch", "from tokens", "even GB/s"), rows)
    note = (
        "+ fetching wins. It does from that prefix length on: a hit's pass reads the weights and computes a shorter "
        "prefix in that time. Even: the rate at which both take as long."
    )
    return [*out, *wrapped(note, indent="  ")]


def _what_ifs(report: Report) -> list[str]:
    """What each change would buy, the most helpful first."""
    rows = report.what_ifs
    if not rows:
        return []
    before = rows[0].before
    known = before.step_seconds is not None
    body = [("  now", *_side(before), "")]
    body += [(("+ " if r.advised else "  ") + r.change, *_side(r.after), words.gain(r)) for r in rows]
    out = [words.what_ifs_title(report)]
    out += table(("", "step", "ceiling tok/s" if known else "", "fit", "gain"), body)
    if known:
        out += wrapped(f"+ helps by 5% or more. {words.GAIN}", indent="  ")
    notes: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            notes.setdefault(row.note, []).append(row.change)
    for note, names in notes.items():
        out += wrapped(f"{', '.join(names)}: {note}.", indent="    ", first="  ")
    return out


def _widening(report: Report) -> list[str]:
    """Why twice the ranks gain what they gain."""
    row = next((row for row in report.what_ifs if row.widening), None)
    if row is None or row.widening is None:
        return []
    body = [("  " + name, *cells) for name, *cells in part_rows(row.widening)]
    out = [*wrapped(widening_title(row)), *table(widening_head(row.widening), body)]
    return [*out, *wrapped(why_not_more(row.widening), indent="  ")]


def _side(side: Side) -> tuple[str, str, str]:
    """Step (bytes where there is no time), ceiling and room."""
    if side.step_seconds is None:
        return gb(side.step_bytes), "", _room(side.sequences)
    return words.seconds(side.step_seconds), words.rate(side.ceiling), _room(side.sequences)


def _room(sequences: int | None) -> str:
    """Sequences that fit."""
    return "-" if sequences is None else f"{sequences:,}"


def sweep_lines(sweep: Sweep) -> list[str]:
    """The table of a sweep and its curves."""
    rows = [
        (
            ("> " if point.is_this else "  ")
            + (count(point.batch) if sweep.over == "batch" else count(point.context)),
            words.seconds(point.seconds_floor),
            words.rate(point.ceiling / point.batch),
            words.rate(point.ceiling),
            f"{words.rate(point.expected[0])}-{words.rate(point.expected[1])}",
            gib(point.kv_bytes),
            "" if point.fits is None else ("yes" if point.fits else "no"),
            words.PARTS[point.limit],
        )
        for point in sweep.points
    ]
    head = (sweep.over, "step", "each", "ceiling", "expected", "KV", "fits", "limit")
    return [f"Over the {sweep.over} (tok/s; > is this service)", *table(head, rows), "", *text_curves(sweep)]


def claim_lines(claim: Claim) -> list[str]:
    """The verdict and what would change it."""
    out = wrapped(words.claim_title(claim))
    for verdict in claim.verdicts:
        out += wrapped(words.verdict_line(verdict), indent="    ", first="  ")
    if claim.remedies:
        out.append("  It would take one of:")
        for remedy in claim.remedies:
            out += wrapped(remedy, indent="      ", first="    - ")
    return out


def render(report: Report) -> str:
    """Return the whole answer as text that ends in a newline."""
    answer = report.answer
    head = [*wrapped(words.title(answer)), *wrapped(words.model_line(answer), indent="  ")]
    head += [*wrapped(words.machine_line(answer), indent="  ")]
    head += wrapped(words.elsewhere_line(answer))
    for misfit in answer.fit.misfits:
        head += wrapped(f"DOES NOT FIT: {misfit}.")
    claim = claim_lines(report.claim) if report.claim else []
    answered = [*wrapped(f"Decode, {words.load_line(answer)}"), *wrapped(words.headline(answer), indent="  ")]
    warnings = [
        "Mind",
        *(line for w in answer.warnings for line in wrapped(clean(w), indent="    ", first="  - ")),
    ]
    sections = [
        [*head],
        claim,
        answered,
        _memory(answer),
        _step(answer),
        _first_token(answer),
        _what_ifs(report),
        _widening(report),
        sweep_lines(report.sweep) if report.sweep else [],
        warnings if answer.warnings else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"
