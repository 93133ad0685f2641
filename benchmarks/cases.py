"""How labelled public cases are answered: attachments by what they support, evidence rows by the label.

usage: python -m benchmarks.cases FOLDER [--all]

The folder holds one YAML file a case and its attachments, as FOLDER/README.md describes. `--all` prints every answer.
Beside each score stands that of a tool that always says that it can't tell.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from kvdoctor.diagnose import diagnose
from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Confidence, Diagnosis
from kvdoctor.readers import read
from kvdoctor.readers.evidence import evidence_recording

UNDECIDED = "insufficient_evidence"
SCORES = ("right", "acceptable", "miss", "wrong", "harmful")
TEXTS = (".log", ".prom", ".json", ".txt")
"""Endings of attachments that a tool can be fed with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with what was expected."""

    case: str
    given: str
    """What was fed: an attachment's name, or `evidence`."""
    named: str
    confidence: Confidence | None
    """None where it could not be read at all."""
    expected: str
    acceptable: tuple[str, ...]
    wrong: tuple[str, ...]
    summary: str
    next_measurement: str
    wanted: tuple[str, ...]
    """What the case names as the next measurement."""

    @property
    def decidable(self) -> bool:
        """Say whether the case expects a class."""
        return self.expected != UNDECIDED

    @property
    def score(self) -> str:
        """Return how the answer is scored."""
        return score(self.named, self.expected, self.acceptable, self.wrong)


def score(named: str, expected: str, acceptable: Sequence[str], wrong: Sequence[str]) -> str:
    """Score one class against the label of a case."""
    if named == expected:
        return "right"
    if named in acceptable:
        return "acceptable"
    if named in wrong:
        return "harmful"
    return "miss" if named == UNDECIDED else "wrong"


def cases(folder: Path) -> Iterator[Mapping[str, object]]:
    """Yield the cases of a folder by name."""
    for path in sorted(folder.glob("*.yaml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(case, dict) and "label" in case:
            yield case


def attachments(folder: Path) -> Iterator[Answer]:
    """Answer for each case's attachment alone."""
    for case in cases(folder):
        label, files = case.get("attachment_only_label"), case.get("attachments") or ()
        names = [str(f["file"]) for f in files if isinstance(f, dict)] if isinstance(files, list) else []
        paths = [str(folder / name) for name in names if name.endswith(TEXTS)]
        if not isinstance(label, dict) or not paths:
            continue
        yield _answer(case, ", ".join(names), str(label["expected"]), label.get("acceptable"), _read(paths))


def evidence(folder: Path) -> Iterator[Answer]:
    """Answer for each case's evidence rows."""
    for case in cases(folder):
        label, rows = case["label"], case.get("evidence")
        if isinstance(label, dict) and isinstance(rows, list):
            found = diagnose(evidence_recording(rows, str(case["id"])))
            yield _answer(
                case, "evidence", str(label["primary"]), label.get("acceptable_alternatives"), found
            )


def _read(paths: list[str]) -> Diagnosis | KvdoctorError:
    try:
        return diagnose(read(paths))
    except KvdoctorError as error:
        return error


def _answer(
    case: Mapping[str, object],
    given: str,
    expected: str,
    acceptable: object,
    found: Diagnosis | KvdoctorError,
) -> Answer:
    label = case["label"]
    wrong = label.get("wrong_answers") if isinstance(label, dict) else None
    return Answer(
        case=str(case["id"]),
        given=given,
        named=found.primary_name if isinstance(found, Diagnosis) else UNDECIDED,
        confidence=found.confidence if isinstance(found, Diagnosis) else None,
        expected=expected,
        acceptable=_texts(acceptable),
        wrong=_texts(wrong),
        summary=found.summary if isinstance(found, Diagnosis) else str(found),
        next_measurement=found.next_measurement if isinstance(found, Diagnosis) else "",
        wanted=_texts(case.get("next_measurement")),
    )


def _texts(found: object) -> tuple[str, ...]:
    return tuple(str(text) for text in found) if isinstance(found, list) else ()


def tally(answers: Sequence[Answer], *, always: bool = False) -> Counter[str]:
    """Count the scores; `always` counts those of always saying that it can't be told."""
    if always:
        return Counter(score(UNDECIDED, a.expected, a.acceptable, a.wrong) for a in answers)
    return Counter(a.score for a in answers)


def _line(name: str, answers: Sequence[Answer]) -> str:
    ours, never = tally(answers), tally(answers, always=True)
    both = ", ".join(f"{s} {ours[s]} ({never[s]})" for s in SCORES)
    return f"{name}: {len(answers)}; {both}"


def report(title: str, answers: Sequence[Answer], *, every: bool) -> None:
    """Print one score, and the answers that are not right."""
    print(f"\n{title}; in brackets, always saying that it can't be told")
    print(_line("  can be decided", [a for a in answers if a.decidable]))
    print(_line("  cannot be decided", [a for a in answers if not a.decidable]))
    sure = [a for a in answers if a.score in ("wrong", "harmful") and a.confidence is Confidence.HIGH]
    print(f"  wrong or harmful at high confidence: {len(sure)}")
    for answer in answers:
        if every or answer.score != "right":
            level = answer.confidence.value if answer.confidence else "not read"
            print(f"  {answer.score}: {answer.case}: {answer.named} ({level}), expected {answer.expected}")
            print(f"      {answer.summary[:160]}")
        if not answer.decidable:
            print(f"      next: {answer.next_measurement}")
            print(f"      the case: {'; '.join(answer.wanted)}")


def main() -> None:
    """Print both scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="print every answer, the right ones too")
    options = parser.parse_args()
    if not options.folder.is_dir():
        sys.exit(f"{options.folder} is no folder")
    report("Attachments alone", list(attachments(options.folder)), every=options.all)
    report("Evidence rows", list(evidence(options.folder)), every=options.all)


if __name__ == "__main__":
    main()
