"""How full the steps are of prompts: the share of the time that goes to prefill, and how sure that is."""

from __future__ import annotations

import math

from kvdoctor.traffic import Traffic

RIDGE_TOKENS = 256.0
"""Tokens a step from which its time goes with its tokens: near the ridge of an H100 at 295 (roofline guide,
section 5), and a bound of the histogram's buckets."""
MOST_STEPS = 0.5
"""Share of the steps that must be so full before all of them are taken to be."""
FULL_STEP = 2 * RIDGE_TOKENS
"""Tokens of a usual step from which most are past the ridge, where only their mean is known: twice as many..."""
BUDGET = 2048.0
"""...and where nothing tells how many requests are in prefill: the smallest default of a step's token budget."""
FEW_TOKENS = 64
"""Tokens a step below which, without a model, more sequences are taken to be nearly free: the smallest ridge of a
card in the table is about 150 tokens (A100, bf16)."""
PACES = 0.5
"""Share of the time in prefill from which the prefill itself is the pace: no chunking and no room helps."""
HIDDEN = 0.5
"""ITL's tail over what the prompts should take, below which the steady step itself is full of them."""
CHUNK = 0.5
"""Prompt tokens of a usual step over those of one prompt, or over RIDGE_TOKENS, below which nobody computes one: a
step takes in all of a short prompt, and no chunk is set so small."""
ASIDE = 0.1
"""Share of the running requests that a gauge and the gaps between tokens may differ by."""


def mixed_share(traffic: Traffic) -> float:
    """Share of the prompt tokens among those of the steps, where most steps are full of them; else 0.

    A batch of many sequences fills steps as well, and its time goes with the KV that it reads.
    """
    if not traffic.computed or traffic.computed < traffic.generated:
        return 0.0
    steps = traffic.steps
    counted = steps is not None and steps.count and steps.above(RIDGE_TOKENS) >= MOST_STEPS * steps.count
    if not counted and not _full(traffic, traffic.computed):
        return 0.0
    return traffic.computed / (traffic.computed + traffic.generated)


def small_steps(traffic: Traffic) -> bool:
    """Say whether prompts, and steps, hold so few tokens that no prompt sets the pace, however many are in prefill."""
    mean = traffic.steps.mean if traffic.steps is not None else None
    if mean is None or not traffic.prompt_tokens or not traffic.first_tokens:
        return False
    return max(mean, traffic.prompt_tokens / traffic.first_tokens) < FEW_TOKENS


def perhaps_full(traffic: Traffic) -> bool:
    """Say whether usual steps would be full of prompts if none of their tokens hit, which is not told."""
    return traffic.computed is None and _full(traffic, traffic.prompt_tokens)


def _full(traffic: Traffic, computed: float) -> bool:
    """Say whether usual steps hold so many tokens that they are full of prompts, `computed` of them in all.

    Some request must then be in prefill most of the time, and the gaps that are longer than usual can't hold
    what its computing takes. vLLM counts all tokens of a prompt in its last step, so that only the mean of its
    steps is right; others count no steps.
    """
    if traffic.tail is None or not traffic.seconds > 0:
        return False
    tokens = (computed + traffic.generated) / traffic.seconds * traffic.tail.typical
    if traffic.steps is not None and traffic.steps.mean is not None:
        tokens = min(tokens, traffic.steps.mean)
    at_a_time, beside = prefilling(traffic), _beside(traffic) or 0.0
    if at_a_time is None:
        return tokens >= BUDGET and beside < HIDDEN
    return tokens >= FULL_STEP and min(1.0, at_a_time) >= max(PACES, beside / HIDDEN)


def _beside(traffic: Traffic) -> float | None:
    """Share of the time between outputs by which gaps are longer than usual; None where no such gap is seen."""
    if not traffic.gaps_seen or traffic.tail is None or traffic.itl is None or not traffic.itl.total > 0:
        return None
    return traffic.tail.excess / traffic.itl.total


def prefilling(traffic: Traffic) -> float | None:
    """Mean number of requests between scheduled and first token; None where nothing tells.

    By their own clock, and no more than decode steps leave where these have one; else by what the queue leaves of
    TTFT; else by Little's law: those that run and do not decode. None as well where these are no more than the two
    figures may differ by.
    """
    t = traffic
    if not t.seconds > 0:
        return None
    if t.prefill_seconds is not None:
        left = max(0.0, t.seconds - t.decoding) if t.decoding else math.inf
        return min(t.prefill_seconds, left) / t.seconds
    if t.cohort and t.queue is not None and t.queue.mean is not None and t.ttft is not None:
        return max(0.0, t.ttft.total - t.queue.mean * t.ttft.count) / t.seconds
    if t.running is None or t.at_finish:
        return None
    aside = t.running.mean - (t.decode_batch or 0.0)
    return aside if aside > ASIDE * t.running.mean else None


def prefill_share(traffic: Traffic) -> float | None:
    """Share of the time that decoding sequences spent beside prefill, at most.

    The smaller of two upper bounds: the ITL's excess over its steady part, where gaps are seen, and the requests
    in prefill at a time (which overlap); at least the prompts' share of full steps. None without either.
    """
    bounds = [bound for bound in (_beside(traffic), prefilling(traffic)) if bound is not None]
    return max(mixed_share(traffic), min(1.0, *bounds)) if bounds else None


def computes_little(traffic: Traffic) -> bool:
    """Say whether what the queue leaves of TTFT can't be prefill for the most part, which no clock of its own tells.

    Somebody would be in prefill all the time, and the steps hold less than one of those prompts.
    """
    t, at_a_time = traffic, prefilling(traffic)
    if (
        t.prefill_seconds is not None
        or at_a_time is None
        or at_a_time < 1
        or not t.computed
        or not t.first_tokens
    ):
        return False
    if t.itl is None or not t.decode_batch:
        return False
    each = t.computed * t.decode_batch / t.itl.count
    return each < CHUNK * min(RIDGE_TOKENS, t.computed / t.first_tokens)
