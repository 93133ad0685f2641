"""Hold what the model says of a step's reads against what the cards counted; a large difference is told (rule 10)."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor.case import Case
from kvdoctor.causes.counters import Witness, witness
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.steps import prefill_share
from kvdoctor.units import percent, rate_bytes

NEAR = 0.75
"""Traffic over the read ceiling from which HBM sets the pace, and..."""
FAR = 0.5
"""...below which it does not (counters guide, section 2.5: starting values, not yet tuned on recorded traces)."""
TENSOR = 0.5
"""Share of time in the tensor pipes from which the same traffic may belong to compute (ibid.)."""
AGREE = 1.25
"""Model over counter, either way, up to which they agree (rule 10 asks a quarter)."""
MUCH_PREFILL = 0.25
"""Share of the time beside prefill, from which more traffic than decode's alone says nothing against the model."""

Range = tuple[float, float]


def confirm(case: Case, known: Finding, modelled: Range | None) -> Finding:
    """Weigh a finding of the model by the counters; unchanged where nobody counts.

    `modelled` is the least and the most bytes per second of a mean step on one card, None without a model.
    """
    seen = witness(case)
    used = seen.share_of_read(case.machine.bandwidth) if seen else None
    if seen is None or used is None or case.itl is None:
        return known
    counted = _counted(seen)
    differs = modelled is not None and counted is not None and _differ(case, modelled, counted)
    verdict = _weigh(known.verdict, used, differs=differs, pipes=(seen.tensor or 0.0) >= TENSOR)
    gaps = (_gap(modelled, counted),) if differs and modelled and counted else ()
    found = replace(
        known,
        verdict=verdict,
        argument=_argument(known, verdict, used, seen, differs=differs),
        metric=known.metric or Metric.ITL,
        evidence=(*known.evidence, *_evidence(seen, used)),
        gaps=gaps if verdict is not Verdict.NO_DATA else (*known.gaps, *gaps),
    )
    if verdict is Verdict.LIKELY:
        return _costed(case, found, used)
    return found if verdict is not Verdict.RULED_OUT else _free(found)


def _counted(seen: Witness) -> Range | None:
    """Return the bytes per second that the least and the most busy card moved while the engine had work."""
    if seen.peak is None or seen.dram_low is None or seen.dram_high is None:
        return None
    return seen.dram_low * seen.peak, seen.dram_high * seen.peak


def _differ(case: Case, modelled: Range, counted: Range) -> bool:
    less = counted[1] * AGREE < modelled[0]
    more = counted[0] > modelled[1] * AGREE and (prefill_share(case.traffic) or 0.0) < MUCH_PREFILL
    return less or more


def _weigh(known: Verdict, used: float, *, differs: bool, pipes: bool) -> Verdict:
    """Return the verdict: a counter near or far from the ceiling decides, unless the model speaks against it."""
    if used >= NEAR:
        return (
            known if pipes and known is not Verdict.NO_DATA else Verdict.POSSIBLE if pipes else Verdict.LIKELY
        )
    if known is Verdict.LIKELY:
        return Verdict.POSSIBLE if differs else known
    if used < FAR:
        return Verdict.RULED_OUT
    return known if known is Verdict.RULED_OUT and not differs else Verdict.POSSIBLE


def _argument(known: Finding, verdict: Verdict, used: float, seen: Witness, *, differs: bool) -> str:
    told = f"By {seen.source}'s counters HBM moves {percent(used)} of what reads can reach while requests run"
    if differs:
        return f"{told}, and the model says otherwise: model, card, batch or tenants are not as told."
    if verdict is known.verdict and verdict is not Verdict.NO_DATA:
        return f"{known.argument} {told}."
    return f"{told}."


def _gap(modelled: Range, counted: Range) -> Gap:
    reason = (
        f"model and counter differ by more than a quarter: {rate_bytes(modelled[0])} to {rate_bytes(modelled[1])} "
        f"by the model, {rate_bytes(counted[1])} counted"
    )
    return Gap(
        "bandwidth model", reason, "check --model, --gpu and the quantization, and who else uses the card"
    )


def _evidence(seen: Witness, used: float) -> tuple[Evidence, ...]:
    found = [seen.evidence("HBM traffic over its read ceiling, counted", used, NEAR)]
    counted = _counted(seen)
    if counted is not None:
        found.append(Evidence("HBM traffic, counted", counted[1], "bytes/s", None, f"{seen.source} counters"))
    if seen.sm is not None:
        found.append(seen.evidence("SMs busy, counted", seen.sm))
    if seen.tensor is not None:
        found.append(seen.evidence("tensor pipes busy, counted", seen.tensor, TENSOR))
    return tuple(found)


def _costed(case: Case, found: Finding, used: float) -> Finding:
    """Give a likely finding its seconds: the share of the steps that the counted traffic fills."""
    step = case.itl.seconds * (case.gaps or 1.0) if case.itl else 0.0
    fewer = "fewer bytes: quantize weights or KV, a model with fewer KV heads, or more cards; never offload"
    advice = found.advice or (
        Advice(fewer, f"reads fill {percent(min(1.0, used))} of a step", Basis.MEASURED),
    )
    return replace(
        found,
        bound=Bound.BANDWIDTH,
        share_seconds=max(found.share_seconds, min(1.0, used) * step),
        advice=advice,
    )


def _free(found: Finding) -> Finding:
    return replace(found, subclass=None, share_seconds=0.0, recoverable_seconds=None, advice=())
