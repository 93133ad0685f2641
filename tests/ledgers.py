"""Ledgers of made-up loads, and the model and card that let reads be modelled."""

from __future__ import annotations

from loads import Page, case, case_of
from modelconfigs import LLAMA_8B

from kvdoctor.model import Basis, Ledger

H100 = {"gpu": "H100 SXM", "model_config": LLAMA_8B}
EARLY = {"ttft_mean": 4.0, "queue_mean": 0.5, "waiting": 20, "finished": 5}
"""A load of which too few requests have finished for their histograms to be of those that start."""


def ttft(page: Page | None = None, **numbers: object) -> Ledger:
    """Return the TTFT ledger of a page, or of a load."""
    found = (case_of(page) if page else case(**numbers)).ttft
    assert found is not None
    return found


def itl(**numbers: object) -> Ledger:
    """Return the ITL ledger of a load."""
    found = case(**numbers).itl
    assert found is not None
    return found


def basis(found: Ledger, name: str) -> Basis:
    """Return where a part's figure comes from."""
    (part,) = (p for p in found.parts if p.name == name)
    return part.basis
