"""What is asked of the roofline: a model on a machine, and what is decoded on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.machine import Card
from kvdoctor.roofline.quantity import size_bytes, token_count
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape
from kvdoctor.roofline.speculation import accepted_tokens
from kvdoctor.roofline.step import Load, Machine

# vLLM's --gpu-memory-utilization; 0.92 since 0.24, 0.9 for most of its life.
UTILIZATION = 0.9


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that an answer depends on."""

    shape: ModelShape
    card: Card
    layout: Layout = field(default_factory=Layout)
    load: Load = field(default_factory=Load)
    storage: KvStorage = field(default_factory=KvStorage)
    pool_bytes: float | None = None
    """The KV pool of one rank as given; None works it out from the card and the utilization."""
    utilization: float = UTILIZATION
    drafted: int = 0
    accepted: float = 1.0
    """Tokens that one step yields for a sequence; 1 without speculation."""
    replicas: int = 1
    """Copies of this service on the GPUs that were named; every figure is of one."""

    @property
    def machine(self) -> Machine | None:
        """The rates of the card for this model."""
        return self.card.machine(self.shape)


def load_of(batch: float, context: str) -> Load:
    """Read `--batch` and `--context`: `8192`, `128k`, or a mix such as `4k:3,32k:1` (length:weight).

    Raises KvdoctorError for a batch or a length that is not positive.
    """
    if not 0 < batch < math.inf:
        raise KvdoctorError(f"a batch of {batch:g} decodes nothing", "give --batch 1 or more")
    pairs = [_share(entry) for entry in context.split(",") if entry.strip()]
    whole = sum(weight for _, weight in pairs)
    if not pairs or whole <= 0:
        raise KvdoctorError(f"{context!r} is no context", "write 8192, 128k or a mix such as 4k:3,32k:1")
    mix = tuple((float(tokens), weight / whole) for tokens, weight in pairs)
    mean = sum(tokens * share for tokens, share in mix)
    return Load(batch, mean, mix=mix if len(mix) > 1 else ())


def _share(entry: str) -> tuple[int, float]:
    """One length of a mix and its weight."""
    length, _, weight = entry.partition(":")
    tokens = token_count(length)
    try:
        share = float(weight) if weight else 1.0
    except ValueError as error:
        raise KvdoctorError(f"{weight!r} is no weight of a context", "write 4k:3,32k:1") from error
    if tokens < 0 or not 0 < share < math.inf:
        raise KvdoctorError(f"{entry!r} is no context", "lengths and weights are not negative")
    return tokens, share


def layout_of(
    gpus: int | None, *, tp: int | None, pp: int, ep: int | None, dp_attention: int, dcp: int = 1
) -> tuple[Layout, int]:
    """The layout and the number of replicas. Without --tp all GPUs of a replica share every layer.

    Raises KvdoctorError for widths that are not positive or do not fit each other.
    """
    named = {"--gpus": gpus, "--tp": tp, "--pp": pp, "--ep": ep, "--dp-attention": dp_attention, "--dcp": dcp}
    for name, value in named.items():
        if value is not None and value < 1:
            raise KvdoctorError(f"{name} {value} is not possible", f"{name} is 1 or more")
    if tp is None and gpus is not None and gpus % pp:
        raise KvdoctorError(f"{gpus} GPUs can't make {pp} equal stages", "make --gpus a multiple of --pp")
    width = tp or (gpus // pp if gpus else (ep or dp_attention))
    if width % dp_attention:
        raise KvdoctorError(
            f"{width} ranks can't hold {dp_attention} equal copies of the attention",
            "make --tp a multiple of --dp-attention",
        )
    if (width // dp_attention) % dcp:
        raise KvdoctorError(
            f"--dcp {dcp} does not divide the {width // dp_attention} ranks of one sequence", "lower --dcp"
        )
    layout = Layout(tp=width, pp=pp, ep=ep or 1, dp_attention=dp_attention, dcp=dcp)
    total = gpus or layout.gpus
    if total % layout.gpus:
        raise KvdoctorError(
            f"{total} GPUs are no multiple of the {layout.gpus} that --tp {layout.tp} and --pp {pp} need",
            "change --gpus, --tp or --pp",
        )
    return layout, total // layout.gpus


def pool_of(text: str | None) -> float | None:
    """Read `--pool`: a bare number counts in GiB, as engines print it."""
    if text is None:
        return None
    size = size_bytes(text, bare="GiB")
    if size <= 0:
        raise KvdoctorError(f"a pool of {text} holds nothing", "give --pool in GiB")
    return size


def accepted_of(drafted: int, accept: float | None) -> float:
    """Tokens a step: `accept` up to 1 is a rate for each drafted token, above 1 a mean accept length.

    Raises KvdoctorError for a rate without drafted tokens, or drafted tokens without a rate.
    """
    if drafted < 0:
        raise KvdoctorError(f"{drafted} drafted tokens are impossible", "give --draft-tokens 1 or more")
    if accept is None:
        if drafted:
            raise KvdoctorError(
                "what drafted tokens buy depends on how many are accepted",
                "give --accept: a rate such as 0.7, or the mean accept length of the engine's log such as 2.4",
            )
        return 1.0
    if not drafted:
        raise KvdoctorError("--accept without drafted tokens", "give --draft-tokens too")
    if not 0 <= accept <= drafted + 1:
        raise KvdoctorError(
            f"--accept {accept:g} is impossible with {drafted} drafted tokens",
            "give a rate of 0 to 1, or a mean accept length of at most drafted + 1",
        )
    return accept if accept > 1 else accepted_tokens(accept, drafted)
