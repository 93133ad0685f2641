"""The roofline's answer as one static page: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from html import escape
from pathlib import Path

from kvdoctor.render import roofline_figures as figures
from kvdoctor.render import roofline_words as words
from kvdoctor.render.roofline_markup import card, figure, paragraph, section, table
from kvdoctor.render.roofline_widening import part_rows, why_not_more, widening_head, widening_title
from kvdoctor.render.text import clean
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.report import Report, Sweep
from kvdoctor.roofline.step import Limit
from kvdoctor.units import count, gb, gib, rate_bytes

_FOLDER = Path(__file__).parent


def _cards(answer: Answer) -> str:
    """Ceiling, expectation and the limit, side by side."""
    decode, batch = answer.decode, answer.question.load.batch
    if decode.ceiling is None or decode.expected is None or decode.step is None:
        return paragraph(words.headline(answer))
    each = "" if batch == 1 else f"{words.rate(decode.ceiling / batch)} a sequence; "
    low, high = decode.expected
    doubt = ", if it all fitted" if answer.fit.misfits else ""
    return (
        '<div class="cards">'
        + card(
            "Ceiling" + doubt,
            f"{words.rate(decode.ceiling)} tok/s",
            f"{each}step of {words.seconds(decode.seconds_floor)}",
        )
        + card("Expected" + doubt, f"{words.rate(low)} to {words.rate(high)} tok/s", decode.basis)
        + card("Limit", words.LIMITS[decode.step.limit], words.limit_line(answer).partition(". ")[2])
        + "</div>"
        + paragraph(words.fitting_line(answer))
    )


def _memory(answer: Answer) -> str:
    """The memory bar and its figures."""
    fit, pool = answer.fit, answer.fit.pool
    rows = [
        ("weights", gib(fit.weights), gb(fit.weights)),
        (f"{words.kv_name(answer)} of {words.load_name(answer)}", gib(fit.live), gb(fit.live)),
    ]
    if answer.state_per_sequence:
        rows.append(("of that, recurrent state", gib(fit.state), gb(fit.state)))
    if fit.card and fit.usable:
        rows += [
            (words.memory_name(answer), gib(fit.card), gb(fit.card)),
            ("usable of it", gib(fit.usable), gb(fit.usable)),
        ]
    if pool:
        rows.append(
            (
                f"pool: {pool.tokens:,} tokens, {pool.sequences:,} such sequences",
                gib(pool.bytes),
                gb(pool.bytes),
            )
        )
    rows.append(("one sequence", gib(answer.kv_per_sequence), gb(answer.kv_per_sequence)))
    rows.append(("one more token", gib(answer.kv_per_token), gb(answer.kv_per_token)))
    keys = "".join(
        f'<li><span class="key {k}">{k.upper()}</span>{name}</li>'
        for k, name, size in (("w", "weights", 1), ("k", "KV", 1), ("s", "state", fit.state))
        if size
    )
    bar = figures.memory(answer)
    legend = (
        f'<ul class="facts keys">{keys}<li>frame: {words.memory_name(answer)}; dashed: usable of it</li></ul>'
        if fit.card
        else ""
    )
    return f'<figure class="wide">{bar}</figure>{legend}{table(("", "GiB", "GB"), rows)}'


def _step(answer: Answer) -> str:
    """Bytes and seconds by part."""
    decode, step = answer.decode, answer.decode.step
    sizes: dict[Limit, float] = {
        "weights": decode.bytes.weights,
        "kv": decode.bytes.kv,
        "state": decode.bytes.state,
    }
    rows = []
    for part, name in words.PARTS.items():
        size, time = sizes.get(part), step.seconds_by_part[part] if step else None
        if size or time:
            what = f" of {words.flops(decode.flops)}" if part == "compute" else ""
            outside = " (expectation only)" if part in ("collectives", "latency") else ""
            rows.append(
                (
                    name + what + outside,
                    gib(size) if size else "",
                    gb(size) if size else "",
                    words.part_seconds(step, part),
                )
            )
    total = decode.bytes.total
    rows.append(("floor", gib(total), gb(total), words.seconds(decode.seconds_floor)))
    return table(("", "GiB", "GB", "alone takes"), rows)


def _first_token(answer: Answer) -> str:
    """TTFT and the tiers."""
    first = answer.first_token
    if first.floor is None or first.tokens <= 0:
        return ""
    rows = [
        (
            f"miss: {words.flops(first.flops)} of prefill",
            words.seconds(first.miss_seconds),
            words.seconds(first.expected_seconds),
        ),
        (
            f"{words.hit_name(answer)}: {first.hit_tokens:,.0f} tokens computed",
            words.seconds(first.hit_seconds),
            "",
        ),
    ]
    out = table((f"{first.tokens:,.0f} tokens; queueing comes on top", "at least", "expected"), rows)
    if first.expected_seconds is None:
        out += paragraph(f"At least: {words.UNCOUNTED}.", "soft small")
    if not answer.places:
        return out
    tiers = [
        (
            place.tier.name,
            rate_bytes(place.tier.measured),
            words.seconds(place.fetch_seconds),
            "fetch" if place.fetch_seconds < place.recompute_seconds else "compute",
            words.break_even(place),
            words.even_rate(place),
        )
        for place in answer.places
    ]
    head = ("prefix in", "rate", "fetch takes", "faster", "fetch from tokens", "even at GB/s")
    return out + paragraph(words.fetch_title(answer) + ".") + table(head, tiers)


def _what_ifs(report: Report) -> str:
    """What each change would buy."""
    rows = [
        (
            row.change,
            "yes" if row.advised else "",
            words.seconds(row.after.step_seconds),
            "-" if row.after.ceiling is None else words.rate(row.after.ceiling),
            "-" if row.after.sequences is None else f"{row.after.sequences:,}",
            words.gain(row),
            clean(row.note),
        )
        for row in report.what_ifs
    ]
    if not rows:
        return ""
    before = report.what_ifs[0].before
    now = (
        "now",
        "",
        words.seconds(before.step_seconds),
        "-" if before.ceiling is None else words.rate(before.ceiling),
        "-" if before.sequences is None else f"{before.sequences:,}",
        "",
        "",
    )
    head = ("change", "helps", "step", "ceiling tok/s", "sequences that fit", "gain", "")
    return table(head, [now, *rows]) + paragraph(words.GAIN, "soft small") + _widening(report)


def _widening(report: Report) -> str:
    """Why twice the ranks gain what they gain."""
    row = next((row for row in report.what_ifs if row.widening), None)
    if row is None or row.widening is None:
        return ""
    rows = table(widening_head(row.widening), part_rows(row.widening))
    return paragraph(widening_title(row) + ".") + rows + paragraph(why_not_more(row.widening))


def _sweep(answer: Answer, sweep: Sweep) -> str:
    """Figures and table of a sweep."""
    rows = [
        (
            count(point.batch if sweep.over == "batch" else point.context)
            + (" (this)" if point.is_this else ""),
            words.seconds(point.seconds_floor),
            words.rate(point.ceiling / point.batch),
            words.rate(point.ceiling),
            f"{words.rate(point.expected[0])} to {words.rate(point.expected[1])}",
            gib(point.kv_bytes),
            {True: "yes", False: "no", None: "-"}[point.fits],
            words.PARTS[point.limit],
        )
        for point in sweep.points
    ]
    head = (sweep.over, "step", "tok/s each", "ceiling", "expected", "KV a rank", "fits", "limit")
    return (
        figure(
            figures.throughput(sweep), f"Tokens a second over the {sweep.over}: ceiling and expected range."
        )
        + figure(figures.latency(sweep), f"Time between two tokens of a sequence over the {sweep.over}.")
        + table(head, rows)
    )


def _claim(claim: Claim | None) -> str:
    """The verdict on a claim."""
    if claim is None:
        return ""
    remedies = "".join(f"<li>{escape(clean(remedy))}</li>" for remedy in claim.remedies)
    took = f"{paragraph('It would take one of:')}<ul>{remedies}</ul>" if remedies else ""
    verdicts = "".join(paragraph(words.verdict_line(verdict)) for verdict in claim.verdicts)
    return section(words.claim_title(claim), verdicts, took)


def render(report: Report) -> str:
    """Return the page; the same bytes for the same report."""
    answer, sweep = report.answer, report.sweep
    title = words.title(answer)
    misfits = "".join(paragraph(f"Does not fit: {text}.", "misfit") for text in answer.fit.misfits)
    warnings = "".join(f"<li>{escape(clean(text))}</li>" for text in answer.warnings)
    roof = figures.roof(answer, sweep) if sweep else ""
    body = [
        f"<header><p class='name'>kvdoctor roofline</p><h1>{escape(title)}</h1></header>",
        paragraph(words.model_line(answer), "soft"),
        paragraph(words.machine_line(answer), "soft"),
        paragraph(words.elsewhere_line(answer), "misfit"),
        misfits,
        _claim(report.claim),
        section(f"Decode, {words.load_line(answer)}", _cards(answer), _step(answer)),
        section(
            "Under the roof", figure(roof, "The bar is what to expect; the point above it is the ceiling.")
        )
        if roof
        else "",
        section("Memory of one rank", _memory(answer)),
        section("Time to first token", _first_token(answer)),
        section(words.what_ifs_title(report), _what_ifs(report)),
        section(f"Over the {sweep.over}", _sweep(answer, sweep)) if sweep else "",
        section("Mind", f"<ul>{warnings}</ul>") if warnings else "",
    ]
    css = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "roofline.css"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )
