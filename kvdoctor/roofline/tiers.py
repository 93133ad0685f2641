"""Where a prefix may lie, how fast it comes back, and when computing it again is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvdoctor.roofline import kv, prefill
from kvdoctor.roofline.ridge import crossing
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape


@dataclass(frozen=True, slots=True)
class Tier:
    """A place to fetch KV from. Rates in bytes/s for large transfers."""

    name: str
    line_rate: float
    measured: float
    """What large transfers reach."""
    start_s: float
    """Fixed seconds of a fetch."""
    per_rank: bool
    """True where every GPU has a link of its own, so that TP splits the fetch; False for one shared link."""
    note: str = ""


# Prefixes longer than this are not looked at for a break-even length.
_LONGEST = 1e8
# Effective rates as published: nvbandwidth sample output, vLLM's and Mooncake's documentation, PegaFlow, 3FS.
TIERS = (
    Tier("HBM", 3350e9, 3000e9, 0.0, True, "attention kernel on an H800"),
    Tier("NVLink 3 peer", 300e9, 276e9, 0.0, True),
    Tier("CPU memory over PCIe 5.0 x16", 63e9, 50e9, 0.0, True, "large blocks; both ways 83 GB/s in sum"),
    Tier("CPU memory over PCIe 4.0 x16", 31.5e9, 26e9, 0.0, True, "both ways 18.6 GB/s each"),
    Tier("remote memory, RDMA 8 x 400 Gbps", 400e9, 190e9, 0.5e-3, False, "190 to 260 GB/s in KV stores"),
    Tier("remote memory, RDMA 4 x 200 Gbps", 100e9, 87e9, 0.5e-3, False),
    Tier("file system, one 400 Gbps client", 50e9, 43e9, 0.5e-3, False),
    Tier("NVMe, one drive", 7e9, 6.5e9, 0.1e-3, False, "a VM disk reads 1.9 GB/s"),
    Tier("network, 10 Gbps", 1.25e9, 1.1e9, 0.5e-3, False, "rate assumed at 0.9 of the line"),
)


@dataclass(frozen=True, slots=True)
class FetchOrCompute:
    """A prefix from one tier against its prefill."""

    tier: Tier
    tokens: float
    bytes: float
    """Over all ranks that fetch on one link."""
    fetch_seconds: float
    recompute_seconds: float
    break_even_tokens: float | None
    """Prefix length from which fetching is faster; None where it never is, 0 where it always is."""
    break_even_bytes_per_s: float
    """Bandwidth at which both take as long, for this prefix."""


def transfer_seconds(size: float, *, rate: float, start: float = 0.0) -> float:
    """alpha + bytes / rate."""
    return start + size / rate


def piece_bytes(shape: ModelShape, *, layout: Layout, storage: KvStorage) -> float:
    """Bytes of one piece where a layout stores K and V of each layer and block apart: they move as small copies."""
    cache = next((layer.cache for layer in shape.layers if layer.cache and layer.cache.owns), None)
    if cache is None:
        return 0.0
    size, _ = kv.key_bytes(cache, layout=layout, dtype=storage.dtype or shape.kv_dtype, storage=storage)
    return size * storage.block_size / (1 if cache.latent else 2)


def fetched_bytes(
    shape: ModelShape, *, tokens: float, layout: Layout, storage: KvStorage, per_rank: bool
) -> float:
    """Bytes of a prefix that pass one link: one rank's share, or all ranks' over a shared link.

    MLA needs the same latent on every rank; over a shared link it passes once (and is broadcast).
    """
    rank = kv.sequence_bytes(shape, tokens=tokens, layout=layout, storage=storage)
    if per_rank or layout.attention_tp == 1:
        return rank
    return kv.sequence_bytes(shape, tokens=tokens, layout=Layout(), storage=storage)


def recompute_seconds(
    shape: ModelShape, *, tokens: float, layout: Layout, peak: float, efficiency: float
) -> float:
    """Seconds to prefill the prefix again: FLOPs / (GPUs * peak * efficiency)."""
    return prefill.flops(shape, new=tokens) / (layout.gpus / layout.pp * peak * efficiency)


def break_even_rate(shape: ModelShape, *, layout: Layout, peak: float, efficiency: float) -> float:
    """Bytes/s at which a short prefix is fetched as fast as computed: kv_per_token * peak * eff / (2 * P_active).

    Over all GPUs; KV of all ranks together.
    """
    per_token = 2 * prefill.linear_params(shape, head=False)
    growth = kv.growth_bytes(shape, layout=Layout())
    return growth * layout.gpus * peak * efficiency / per_token


def fetch_or_compute(
    shape: ModelShape,
    tier: Tier,
    *,
    tokens: float,
    peak: float,
    efficiency: float,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
    rate: float | None = None,
    added: Callable[[float], float] | None = None,
) -> FetchOrCompute:
    """Compare both ways to a prefix of `tokens` tokens. `rate` (bytes/s) replaces the tier's measured one.

    `added` gives the seconds that computing so many tokens adds to the pass that yields the first token; without it
    computing takes its FLOPs alone.
    """
    bandwidth = rate or tier.measured

    def fetch(length: float) -> float:
        size = fetched_bytes(shape, tokens=length, layout=layout, storage=storage, per_rank=tier.per_rank)
        return transfer_seconds(size, rate=bandwidth, start=tier.start_s)

    def compute(length: float) -> float:
        if added is not None:
            return added(length)
        return recompute_seconds(shape, tokens=length, layout=layout, peak=peak, efficiency=efficiency)

    size = fetched_bytes(shape, tokens=tokens, layout=layout, storage=storage, per_rank=tier.per_rank)
    spare = compute(tokens) - tier.start_s
    return FetchOrCompute(
        tier,
        tokens,
        size,
        fetch(tokens),
        compute(tokens),
        _first_win(fetch, compute),
        size / spare if spare > 0 else float("inf"),
    )


def _first_win(fetch: Callable[[float], float], compute: Callable[[float], float]) -> float | None:
    """The shortest prefix from which fetching wins for good; 0 where it wins from the first token on."""
    found = crossing(lambda length: fetch(length) <= compute(length), low=1.0, high=_LONGEST)
    return None if found is None else (0.0 if found <= 1.001 else found)
