"""Which card a probe gets: the service's own, joined by UUID, since CUDA counts cards otherwise than NVML does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kvdoctor.collectors import nvml_calls as calls
from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.nvml_card import Handle
from kvdoctor.collectors.nvml_find import find, is_cut
from kvdoctor.errors import Unavailable
from kvdoctor.target.family import Card

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
_NAME_IT = "name it: CUDA_VISIBLE_DEVICES=GPU-... or MIG-... (nvidia-smi -L lists them)"


@dataclass(frozen=True, slots=True)
class Service:
    """Whom a probe runs beside: the cards that it is known to use, and its processes."""

    cards: tuple[Card, ...] = ()
    pids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Chosen:
    """One card or MIG instance, as NVML has it and as CUDA_VISIBLE_DEVICES names it."""

    handle: Handle
    uuid: str

    @property
    def name(self) -> str:
        """`GPU 1`, or `GPU 0 instance 3`."""
        index, instance = self.handle.index, self.handle.instance
        return f"GPU {index}" if instance is None else f"GPU {index} instance {instance}"


def choose(
    nvml: Any, number: int | None, *, service: Service | None, environment: Mapping[str, str]
) -> Chosen:
    """Return the card that a probe of `cuda:number` gets; None stands for `auto`, the first.

    Beside a service its own cards are counted, without one those that CUDA_VISIBLE_DEVICES leaves, in NVML's order.
    Unavailable where that is none, or where it is not known which.
    """
    own = _own(nvml, service)
    cards = own or visible(nvml, environment)
    if service is not None and not own and number is None and len(cards) > 1:
        raise Unavailable("which of the cards the service uses is not known", "--device cuda:N")
    if not (number or 0) < len(cards):
        whose = "the service uses" if own else f"{VISIBLE} leaves"
        raise Unavailable(
            f"there is no card cuda:{number or 0}: {whose} {len(cards)}", "kvdoctor targets, or nvidia-smi -L"
        )
    return _looked_up(nvml, cards[number or 0], service.pids if service is not None else frozenset())


def _own(nvml: Any, service: Service | None) -> tuple[Card, ...]:
    """Return the cards that a service is known to use, else those on which NVML lists a process of it."""
    if service is None or service.cards:
        return service.cards if service is not None else ()
    found = find(nvml, ()).handles
    held = {handle.index for handle in found if service.pids & _pids(nvml, handle)}
    return tuple(Card(index) for index in sorted(held))


def visible(nvml: Any, environment: Mapping[str, str]) -> tuple[Card, ...]:
    """Return the cards that CUDA would show to a process with this environment.

    CUDA reads the list up to the first word that names no card. Its numbers are NVML's only where all cards are of one
    kind or CUDA_DEVICE_ORDER says so (CUDA programming guide, environment variables); else Unavailable.
    """
    count = int(nvml.nvmlDeviceGetCount())
    text = environment.get(VISIBLE)
    if text is None:
        return tuple(Card(index) for index in range(count))
    found: list[Card] = []
    for word in (word.strip() for word in text.split(",")):
        if word.isdigit() and int(word) < count:
            found.append(Card(int(word)))
        elif word.startswith(("GPU-", "MIG-")):
            found.append(Card(-1, word))
        else:
            break
    if any(card.index >= 0 for card in found) and _orders_differ(nvml, count, environment):
        raise Unavailable(
            f"{VISIBLE}={text} counts cards of several kinds, and CUDA counts them otherwise than NVML",
            f"export {ORDER}=PCI_BUS_ID, or {_NAME_IT}",
        )
    return tuple(found)


def _orders_differ(nvml: Any, count: int, environment: Mapping[str, str]) -> bool:
    """Say whether CUDA may number the cards otherwise: it puts the fastest first unless told not to."""
    kinds = set()
    for index in range(count):
        with suppress(*errors.kinds(nvml)):
            kinds.add(str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))))
    return len(kinds) > 1 and environment.get(ORDER) != "PCI_BUS_ID"


def _looked_up(nvml: Any, card: Card, pids: frozenset[int]) -> Chosen:
    """Find a card's handle; of one that is cut by MIG the instance that holds the service."""
    found = find(nvml, [card])
    named = card.uuid or f"GPU {card.index}"
    if not found.handles:
        number = found.lost[0][1] if found.lost else 28
        raise Unavailable(f"{named}: {errors.reason(number)}", errors.cure(number))
    first = found.handles[0]
    if first.instance is None and is_cut(nvml, first.card):
        first = _instance(nvml, first.index, found.handles[1:], pids)
    return Chosen(first, str(nvml.nvmlDeviceGetUUID(first.card)))


def _instance(nvml: Any, index: int, instances: Sequence[Handle], pids: frozenset[int]) -> Handle:
    """Return the one MIG instance that a process of the service is on; Unavailable where that is none or several."""
    held = [each for each in instances if pids & _pids(nvml, each)]
    if len(held) == 1:
        return held[0]
    whose = "which one is the service's is not told" if pids else "they belong to others"
    raise Unavailable(f"GPU {index} is cut into {len(instances)} MIG instances, and {whose}", _NAME_IT)


def _pids(nvml: Any, handle: Handle) -> frozenset[int]:
    try:
        return frozenset(calls.process_memory(nvml, handle.card))
    except errors.kinds(nvml):
        return frozenset()


def others(nvml: Any, chosen: Chosen) -> tuple[Chosen, ...]:
    """Return the other whole cards that NVML can reach: for copies between cards, where no service is named."""
    found = find(nvml, ())
    cut = {handle.index for handle in found.handles if handle.instance is not None}
    return tuple(
        Chosen(handle, str(nvml.nvmlDeviceGetUUID(handle.card)))
        for handle in found.handles
        if handle.instance is None and handle.index not in cut and handle.index != chosen.handle.index
    )
