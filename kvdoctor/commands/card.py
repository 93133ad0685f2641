"""The card that a probe may use: chosen, asked about, and the only one that its child sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.chosen import VISIBLE, Chosen, Service, choose, others
from kvdoctor.collectors.consent import open_nvml, refusal
from kvdoctor.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Grant:
    """What the child is given; nothing where the machine has no card to protect."""

    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    """For the result: the card by name and UUID."""


def granted(
    need: int,
    device: str,
    *,
    service: Service | None,
    more: bool = False,
    load: Callable[[], Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Grant:
    """Return the card for a probe of `need` bytes on `auto`, `cuda` or `cuda:1`; Unavailable where none may be used.

    The child sees it as its only card. With `more`, and beside no service, it sees the other free cards too.
    """
    nvml = open_nvml(load)
    if nvml is None:
        return Grant()
    here = os.environ if environment is None else environment
    number = device.rpartition(":")[2]
    try:
        chosen = choose(nvml, int(number) if number.isdigit() else None, service=service, environment=here)
        forbidden = refusal(need, chosen, nvml=nvml)
        if forbidden is not None:
            raise forbidden
        seen = [chosen]
        if more and service is None and chosen.handle.instance is None:
            seen += [each for each in others(nvml, chosen) if refusal(need, each, nvml=nvml) is None]
    except errors.kinds(nvml) as error:
        code = errors.code(error)
        raise Unavailable(f"NVML cannot answer: {errors.reason(code)}", errors.cure(code)) from None
    return _grant(seen, device)


def _grant(seen: list[Chosen], device: str) -> Grant:
    first = seen[0]
    return Grant(
        {VISIBLE: ",".join(each.uuid for each in seen)},
        {"device": "auto" if device == "auto" else "cuda:0"},
        {"card": {"name": first.name, "uuid": first.uuid}},
    )
