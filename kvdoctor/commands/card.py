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

MPS_SHARE, MPS_MEMORY = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


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
    force: bool = False,
    load: Callable[[], Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Grant:
    """Return the card for a probe of `need` bytes on `auto`, `cuda` or `cuda:1`; Unavailable where none may be used.

    The child sees it as its only card; with `force` whatever speaks against it, and with little of
    what MPS shares out. With `more`, and beside no service, it sees the other free cards too.
    """
    nvml = open_nvml(load)
    if nvml is None:
        return Grant()
    here = os.environ if environment is None else environment
    number = device.rpartition(":")[2]
    try:
        chosen = choose(nvml, int(number) if number.isdigit() else None, service=service, environment=here)
        forbidden = refusal(need, chosen, nvml=nvml)
        if forbidden is not None and not force:
            raise forbidden
        seen = [chosen]
        if more and service is None and chosen.handle.instance is None:
            seen += [each for each in others(nvml, chosen) if refusal(need, each, nvml=nvml) is None]
    except errors.kinds(nvml) as error:
        code = errors.code(error)
        raise Unavailable(f"NVML cannot answer: {errors.reason(code)}", errors.cure(code)) from None
    return _grant(seen, device, _modest(need) if forbidden is not None else {})


def _modest(need: int) -> dict[str, str]:
    """Return the settings of an MPS client that takes a tenth of a card's SMs and no more memory than it needs."""
    return {MPS_SHARE: "10", MPS_MEMORY: f"0={need // 2**20}M"}


def _grant(seen: list[Chosen], device: str, more: Mapping[str, str]) -> Grant:
    first = seen[0]
    return Grant(
        {VISIBLE: ",".join(each.uuid for each in seen), **more},
        {"device": "auto" if device == "auto" else "cuda:0"},
        {"card": {"name": first.name, "uuid": first.uuid}},
    )
