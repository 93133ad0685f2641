"""From a family's cards to NVML's handles: joined by UUID, then by index; MIG instances by theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.nvml_card import Handle
from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.target.family import Card

_PASSTHROUGH, _VGPU = 1, 2
"""Modes of nvmlDeviceGetVirtualizationMode (nvml.h)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The cards to read, and those that are known to be there and cannot be."""

    handles: tuple[Handle, ...]
    lost: tuple[tuple[int, int], ...]
    """(index, error code)."""


def find(nvml: Any, cards: Sequence[Card]) -> Found:
    """Look every card up; where none is named, all of them. One that fails takes no other with it."""
    handles: list[Handle] = []
    lost = []
    for index in range(int(nvml.nvmlDeviceGetCount())):
        try:
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(nvml.nvmlDeviceGetUUID(card))
        except errors.kinds(nvml) as error:
            if not cards or any(each.index == index for each in cards):
                lost.append((index, errors.code(error)))
            continue
        instances = _instances(nvml, index, card)
        if _is_named(cards, index, uuid):
            handles += [Handle(index, card), *(handle for handle, _ in instances)]
        else:
            handles += [handle for handle, name in instances if _is_named(cards, -1, name)]
    return Found(tuple(handles), tuple(lost))


def _is_named(cards: Sequence[Card], index: int, uuid: str) -> bool:
    """Say whether a card is one of these: by UUID or the start of one, by index where no UUID is known."""
    if not cards:
        return True
    return any(uuid.startswith(card.uuid) if card.uuid else card.index == index >= 0 for card in cards)


def _instances(nvml: Any, index: int, card: Any) -> list[tuple[Handle, str]]:
    """Return the MIG instances of a card with their UUIDs; there are holes in their numbering."""
    if not is_cut(nvml, card):
        return []
    found = []
    for place in range(_number(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(card), nvml)):
        with suppress(*errors.kinds(nvml)):
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place)
            number = int(nvml.nvmlDeviceGetGpuInstanceId(instance))
            found.append((Handle(index, instance, card, number), str(nvml.nvmlDeviceGetUUID(instance))))
    return found


def is_cut(nvml: Any, card: Any) -> bool:
    """Say whether MIG is on; not so where the card or the driver has none."""
    return bool(_number(lambda: nvml.nvmlDeviceGetMigMode(card)[0], nvml))


def settings(nvml: Any, handle: Handle, here: Setting) -> tuple[str, ...]:
    """Return the circumstances that decide what a card tells."""
    card = handle.parent or handle.card
    mode = _number(lambda: nvml.nvmlDeviceGetVirtualizationMode(card), nvml)
    told = {
        "vgpu": mode == _VGPU,
        "passthrough": mode == _PASSTHROUGH,
        "mig": is_cut(nvml, card),
        "wsl": here.is_wsl,
        "confidential": bool(_number(lambda: nvml.nvmlSystemGetConfComputeState().ccFeature, nvml)),
    }
    return tuple(kind for kind, holds in told.items() if holds)


def _number(ask: Callable[[], Any], nvml: Any) -> int:
    """Return a number that old cards and drivers do not have, then 0."""
    try:
        return int(ask())
    except errors.kinds_and_absence(nvml):
        return 0


def pick(handles: Iterable[Handle], uses: Callable[[Handle], bool], named: bool) -> list[Handle]:
    """Keep the cards of the family: the named ones, else those with a member on them.

    Of a card that is cut, the instances with a member on them, or all where none is seen.
    """
    kept = list(handles)
    if not named:
        parents = {handle.index for handle in kept if uses(handle)}
        kept = [handle for handle in kept if handle.index in parents]
    held = {(h.index, h.instance) for h in kept if h.instance is not None and uses(h)}
    busy = {index for index, _ in held}
    return [h for h in kept if h.instance is None or h.index not in busy or (h.index, h.instance) in held]
