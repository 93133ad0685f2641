"""The lab's own server: vLLM's vocabulary and timing under a prefix of its own."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor.engines import vllm
from kvdoctor.engines.engine import Engine, Select, Terms

PREFIX = "kvlab:"


def _own(select: Select) -> Select:
    """The same family under the lab's prefix."""
    return replace(select, name=select.name.replace("vllm:", PREFIX, 1))


def _terms(terms: Terms) -> Terms:
    return tuple(_own(select) for select in terms)


ENGINE = Engine(
    name="kvlab",
    prefixes=(PREFIX,),
    signals={
        quantity: tuple(_terms(terms) for terms in alternatives)
        for quantity, alternatives in vllm.ENGINE.signals.items()
    },
    rank_label=vllm.ENGINE.rank_label,
    default_port=8000,
)
