"""Literal answers for the renderers' tests: what the pipeline says of typical services."""

from __future__ import annotations

from diagnosis_bounds import NETWORK, PREFILL, QUEUEING
from diagnosis_capacity import CAPACITY
from diagnosis_states import HEALTHY, IDLE, INSUFFICIENT, LIFETIME

from kvdoctor.model import Diagnosis

SAMPLES: dict[str, Diagnosis] = {
    "healthy": HEALTHY,
    "capacity": CAPACITY,
    "queueing": QUEUEING,
    "prefill": PREFILL,
    "network": NETWORK,
    "idle": IDLE,
    "insufficient": INSUFFICIENT,
    "lifetime": LIFETIME,
}
