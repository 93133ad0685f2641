"""Questions and reports for the tests of the roofline."""

from __future__ import annotations

from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.asked import Asked, question_of
from kvdoctor.roofline.claim import judge
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.report import Report, Sweep
from kvdoctor.roofline.sweep import sweep
from kvdoctor.roofline.whatif import what_ifs


def question(model: str = "Llama-3.1-8B", gpu: str | None = "H100", **options: object) -> Question:
    """A question as the command line would ask it."""
    return question_of(Asked(model, gpu, **options))  # type: ignore[arg-type]


def report(asked: Question, claim: str | None = None, *, swept: bool = True) -> Report:
    """The whole report of a question, swept over the batch."""
    found = answer(asked)
    return Report(
        found,
        what_ifs(asked),
        Sweep("batch", sweep(asked, "batch")) if swept else None,
        judge(found, claim) if claim else None,
    )
