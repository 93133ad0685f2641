"""A read rate that a probe measured on this machine, and the conditions that it holds under."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import serving
from kvdoctor.roofline.hardware import gpu_by_name
from kvdoctor.roofline.shape import ModelShape
from kvdoctor.units import count, gb, percent

HOST = "CPU"
"""How a probe of memory without a card names its device."""
BUSY = 0.9
"""Share of its processors' time below which a probe was held up by other work."""
UNSETTLED = "its warm-up did not settle"
READ_BOUND = 0.6
"""Share of the plain read from which a decode step counts as bound by its reads; the same as for a service's steps.
Below, its rate says what computing or launching costs, and is no ceiling of reads."""
RANGE = 2.0
"""Factor by which batch or context may differ before that is said: within it the mix of weights and KV, and so the
rate, moves by less than repeats do."""
SAME_SHAPE = 0.02
"""Share by which the bytes of a step may differ between two configs of one model: vectors, padded vocabularies."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a probe measured. Rates in bytes/s; empty text and 0 where the probe did not say."""

    probe: str
    """decode, or hbm for a plain read alone."""
    read: float
    """Rate of the plain read."""
    decode: float = 0.0
    """Rate of the decode steps; 0 without."""
    device: str = ""
    """Name of the card, or CPU."""
    processor: str = ""
    at: str = ""
    """Day of the measurement."""
    model: str = ""
    batch: float = 0.0
    context: float = 0.0
    weights: str = ""
    kv_dtype: str = ""
    step_bytes: float = 0.0
    disturbed: str = ""
    """What speaks against the measurement: other work beside it, or repeats that did not agree."""

    @property
    def is_read_bound(self) -> bool:
        """Whether the decode steps came near the plain read."""
        return self.decode > 0 and self.decode >= READ_BOUND * self.read

    @property
    def is_lower_bound(self) -> bool:
        """Whether others used the memory or the processors meanwhile, so that the hardware can do more."""
        return self.disturbed not in ("", UNSETTLED)

    @property
    def bytes_per_s(self) -> float:
        """The ceiling: the rate of real decode steps where reads bound them, else of the plain read."""
        return self.decode if self.is_read_bound else self.read

    @property
    def basis(self) -> str:
        """Where the ceiling comes from, with its conditions, for people."""
        return f"measured by probe {self.probe}{self._load}: {self._how}{self._where}"

    @property
    def read_basis(self) -> str:
        """The same for the plain read, which no decode can exceed."""
        return f"measured by probe {self.probe}{self._load}: a plain read beside its decode{self._where}"

    @property
    def _load(self) -> str:
        return f" at batch {count(self.batch)}, context {count(self.context)}" if self.batch else ""

    @property
    def _how(self) -> str:
        if not self.decode:
            return "a plain read"
        if self.is_read_bound:
            return f"decode of {self.model}, {self.weights} weights, {self.kv_dtype} KV"
        return (
            f"a plain read; its decode reached {percent(self.decode / self.read)} of it, not bound by reads"
        )

    @property
    def _where(self) -> str:
        place = f"{self.device} ({self.processor})" if self.processor else self.device
        return "".join(f", {text}" for text in (place, self.at) if text)

    def is_of(self, card: str) -> bool:
        """Whether it was measured on a card of this name."""
        try:
            return gpu_by_name(self.device).name == gpu_by_name(card).name
        except KvdoctorError:
            return self.device.casefold() == card.casefold()

    def doubts(
        self, shape: ModelShape | None, *, batch: float | None, context: float | None, kv_dtype: str | None
    ) -> tuple[str, ...]:
        """Conditions that are not those of what the ceiling is used for; none for a plain read, which has no load.

        `batch` and `context` are those of one rank; None is not known, and `kv_dtype` None is the model's own.
        """
        if not self.decode:
            return ()
        found = [
            f"{name} {count(mine)}, used for {name} {count(theirs)}"
            for name, mine, theirs in (("batch", self.batch, batch), ("context", self.context, context))
            if theirs and mine and max(mine / theirs, theirs / mine) > RANGE
        ]
        if shape is None:
            return tuple(found)
        kv = kv_dtype or shape.kv_dtype
        if self.kv_dtype and kv != self.kv_dtype:
            found.append(f"{self.kv_dtype} KV, used for {kv} KV")
        return (*found, *self._other_model(shape))

    def _other_model(self, shape: ModelShape) -> tuple[str, ...]:
        """Say so where a step of this model at the probe's load would read other bytes than the probe's did."""
        if not (self.step_bytes and self.batch and self.kv_dtype):
            return ()
        read = serving.decode_bytes(shape, batch=self.batch, context=self.context, kv_dtype=self.kv_dtype)
        if (
            read.weights_low * (1 - SAME_SHAPE)
            <= self.step_bytes - read.kv
            <= read.weights_high * (1 + SAME_SHAPE)
        ):
            return ()
        return (
            f"{self.model} in {self.weights}, whose step reads {gb(self.step_bytes)}; "
            f"used for a model whose step reads {gb(read.total)} at that load",
        )

    def text(self) -> str:
        """As a recording keeps it."""
        return json.dumps(asdict(self))


_EMPTY = Measured("", 0.0)


def from_text(text: str) -> Measured | None:
    """Read what `text` wrote; None for anything else: a recording may come from anywhere."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    names = [field.name for field in fields(Measured)]
    if not isinstance(found, dict) or set(found) != set(names):
        return None
    if any(not _is(found[name], isinstance(getattr(_EMPTY, name), str)) for name in names):
        return None
    return Measured(**found) if found["read"] > 0 else None


def _is(value: object, wants_text: bool) -> bool:
    """Whether it is text, or a number of at least zero."""
    return isinstance(value, str) if wants_text else number(value) >= 0


def number(value: object) -> float:
    """A finite number, else -1: JSON's whole numbers have no limit, a float's range has."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return -1.0
    try:
        found = float(value)
    except OverflowError:
        return -1.0
    return found if math.isfinite(found) else -1.0


def of_result(result: Mapping[str, object]) -> Measured | None:
    """What the JSON of `kvdoctor probe decode` or `hbm` says; None without the rates that it must have."""
    achieved, probe = number(result.get("achieved_bytes_per_s")), str(result.get("probe"))
    read = number(result.get("plain_read_bytes_per_s")) if probe == "decode" else achieved
    if achieved <= 0 or read <= 0:
        return None
    given = result.get("conditions")
    told: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    common = Measured(
        probe,
        read,
        device=str(result.get("device", "")),
        processor=str(told.get("processor", "")),
        at=str(result.get("at", ""))[:10],
        disturbed=_disturbed(result, told),
    )
    if probe != "decode":
        return common
    numbers = {name: max(0.0, number(told.get(name))) for name in ("batch", "context")}
    words = {name: str(told.get(name, "")) for name in ("model", "weights", "kv_dtype")}
    step = max(0.0, number(result.get("bytes_per_step")))
    return Measured(**{**asdict(common), **numbers, **words, "decode": achieved, "step_bytes": step})


def _disturbed(result: Mapping[str, object], told: Mapping[str, object]) -> str:
    """What a result says of other work beside it."""
    if told.get("shared_with_others"):
        return "the service took its share meanwhile"
    rows = result.get("rows")
    about = (
        [row.get("conditions") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    )
    shares = [number(one.get("on_processor")) for one in (told, *about) if isinstance(one, Mapping)]
    least = min((share for share in shares if share >= 0), default=1.0)
    if least < BUSY:
        return f"other work left the probe {percent(least)} of its processors' time"
    return UNSETTLED if told.get("settled") is False else ""
