"""What drafted tokens buy: the verify step, the draft steps, and the tokens that survive."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import weights
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape
from kvdoctor.roofline.step import Load, Machine, Step, decode_step


@dataclass(frozen=True, slots=True)
class Speculation:
    """A verify step beside the plain one."""

    plain: Step
    verify: Step
    draft_seconds: float
    accepted: float
    """Tokens that one verify step yields for each sequence, the bonus token included."""
    tokens_per_s_ceiling: float
    """B * A / (T_verify + T_draft), over the batch."""
    gain: float
    """Against plain decoding; below 1 it is a loss."""


def accepted_tokens(rate: float, drafted: int) -> float:
    """Tokens a step for an acceptance rate r of each of s drafted tokens: (1 - r^(s+1)) / (1 - r)."""
    if not 0 <= rate <= 1 or drafted < 0:
        raise KvdoctorError(f"{rate} is no acceptance rate", "give a rate of 0 to 1, or a mean accept length")
    return float(drafted + 1) if rate == 1 else (1 - rate ** (drafted + 1)) / (1 - rate)


def draft_step_bytes(shape: ModelShape, *, layout: Layout) -> float:
    """Weight bytes of one step of the checkpoint's own draft layer: the layer and the head; 0 without one."""
    if not shape.draft:
        return 0.0
    one = replace(shape, layers=shape.draft[:1], draft=())
    return weights.read_bytes(one, tokens=1.0, layout=replace(layout, pp=1)).estimate


def speculate(
    shape: ModelShape,
    machine: Machine,
    load: Load,
    *,
    drafted: int,
    accepted: float,
    draft_bytes: float = 0.0,
    parallel: bool = False,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
) -> Speculation:
    """Bound decoding with `drafted` tokens of which a step yields `accepted` in the mean (1 to drafted + 1).

    `draft_bytes` are read on one rank in each draft step: as many steps as drafted tokens, or one if `parallel`.
    KV counts once a sequence; experts count for all B * (drafted + 1) tokens.
    """
    if not 1 <= accepted <= drafted + 1:
        raise KvdoctorError(
            f"{accepted} accepted tokens a step are impossible with {drafted} drafted",
            "the accept length lies between 1 and drafted + 1",
        )
    plain = decode_step(shape, machine, load, layout, storage)
    verify = decode_step(shape, machine, replace(load, tokens_per_sequence=drafted + 1), layout, storage)
    steps = min(drafted, 1) if parallel else drafted
    draft = steps * draft_bytes / machine.bandwidth
    ceiling = load.batch * accepted / (verify.seconds_floor + draft)
    return Speculation(plain, verify, draft, accepted, ceiling, ceiling / plain.tokens_per_s_ceiling)
