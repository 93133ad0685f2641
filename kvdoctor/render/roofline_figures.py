"""The roofline's figures: the roof with this service under it, the curves over a sweep, the memory bar."""

from __future__ import annotations

from kvdoctor.render import roofline_words as words
from kvdoctor.render.roofline_curves import across
from kvdoctor.render.roofline_scale import Axis, around
from kvdoctor.render.roofline_svg import Curve, Mark, Plane, figure, stack
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.report import Sweep
from kvdoctor.roofline.sweep import Point
from kvdoctor.units import gib

# Room right of the ridge and left of the least intense point, as factors.
_RIGHT, _LEFT = 8.0, 2.0


def _this(sweep: Sweep) -> Point:
    """The service itself."""
    return next(point for point in sweep.points if point.is_this)


def roof(answer: Answer, sweep: Sweep) -> str:
    """FLOP/s of one GPU over FLOPs a byte: the roof, its ridge, this service and what batch does; "" without a peak."""
    machine = answer.question.machine
    if machine is None or not machine.peak or answer.decode.expected is None or not answer.decode.ceiling:
        return ""
    ridge = machine.peak / machine.bandwidth
    this = _this(sweep)
    low = min(point.intensity for point in sweep.points) / _LEFT
    high = max(ridge * _RIGHT, max(point.intensity for point in sweep.points) * 2)
    plane = Plane(
        Axis(low, high, log=True),
        Axis(low * machine.bandwidth, machine.peak * 2, log=True),
        "FLOPs per byte read",
        "FLOP/s of one GPU",
    )
    line = ((low, low * machine.bandwidth), (ridge, machine.peak), (high, machine.peak))
    path = tuple(sorted((point.intensity, point.flops_per_s) for point in sweep.points))
    share = this.flops_per_s / this.ceiling
    bar = (answer.decode.expected[0] * share, answer.decode.expected[1] * share)
    marks = (
        Mark(f"ridge at {ridge:,.0f}", ridge),
        Mark("this service: ceiling, and what to expect", this.intensity, this.flops_per_s, *bar),
    )
    curves = (Curve("roof", "roof", line), Curve("a", f"over the {sweep.over}", path))
    title = f"Roofline: {this.intensity:.3g} FLOPs a byte, the ridge at {ridge:.3g}"
    return figure(title, plane, curves, marks)


def throughput(sweep: Sweep) -> str:
    """Tokens/s over the whole batch: the ceiling and the expected range."""
    total = tuple((across(sweep, p), p.ceiling) for p in sweep.points)
    low = tuple((across(sweep, p), p.expected[0]) for p in sweep.points)
    high = tuple((across(sweep, p), p.expected[1]) for p in sweep.points)
    y = around([v for line in (total, low) for _, v in line], log=True, room=0.1)
    curves = (Curve("a", "ceiling", total), Curve("b", "expected at best", high), Curve("c", "at worst", low))
    return figure(
        f"Tokens a second over the {sweep.over}", _plane(sweep, y, "tok/s, whole batch"), curves, _here(sweep)
    )


def latency(sweep: Sweep) -> str:
    """Milliseconds between two tokens of a sequence."""
    floor = tuple((across(sweep, p), 1e3 * p.batch / p.ceiling) for p in sweep.points)
    fast = tuple((across(sweep, p), 1e3 * p.batch / p.expected[1]) for p in sweep.points)
    slow = tuple((across(sweep, p), 1e3 * p.batch / p.expected[0]) for p in sweep.points)
    y = around([v for line in (floor, slow) for _, v in line], log=True, room=0.1)
    curves = (Curve("a", "floor", floor), Curve("b", "expected at best", fast), Curve("c", "at worst", slow))
    plane = _plane(sweep, y, "ms between tokens")
    return figure(f"Time between tokens over the {sweep.over}", plane, curves, _here(sweep))


def _plane(sweep: Sweep, y: Axis, name: str) -> Plane:
    """A frame over the sweep."""
    x = Axis(across(sweep, sweep.points[0]), across(sweep, sweep.points[-1]), log=True)
    return Plane(x, y, "sequences in the batch" if sweep.over == "batch" else "tokens of context", name)


def _here(sweep: Sweep) -> tuple[Mark, ...]:
    """Where this service is, and the first point that no longer fits."""
    found = [Mark("this service", across(sweep, _this(sweep)))]
    full = next((p for p in sweep.points if p.fits is False), None)
    if full is not None and not full.is_this:
        found.append(Mark("no longer fits", across(sweep, full), line=1))
    return tuple(found)


def memory(answer: Answer) -> str:
    """One rank's memory: weights, KV, state, the rest of the card."""
    fit = answer.fit
    parts = (
        ("w", f"weights {gib(fit.weights)}", fit.weights),
        ("k", f"KV {gib(fit.live - fit.state)}", fit.live - fit.state),
        ("s", f"state {gib(fit.state)}", fit.state),
    )
    total = fit.card or fit.weights + fit.live
    shown = tuple(part for part in parts if part[2] > 0)
    return stack(
        f"Memory of one rank, {words.both(total)} in all", shown, total, fit.usable if fit.card else None
    )
