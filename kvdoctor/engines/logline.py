"""What log lines and reports say, as an engine: each quantity has one raw name."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor.engines.engine import Engine, any_of

ENGINE = Engine(
    name="log",
    prefixes=(lm.PREFIX,),
    signals={quantity: any_of(lm.raw(quantity)) for quantity in (*lm.SHARED, *lm.OWN)},
    rank_label="rank",
)
