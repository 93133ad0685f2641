"""The faults of the lab: what each does to the server and to its load, and what a diagnosis should call it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvdoctor.errors import KvdoctorError
from kvdoctor.lab.scene import FAST_LINK, Scene, Shape
from kvdoctor.lab.settings import TierSetting
from kvdoctor.lab.wants import Group

NONE = "none"
HEALTHY = "healthy"
PREFIX = 400
"""Tokens of each prefix that lies in a tier."""


Make = Callable[[Scene, random.Random], Scene]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault and its right name."""

    name: str
    primary: str
    subclass: str | None
    make: Make
    what: str
    """What is done, in a sentence."""


def none(scene: Scene, rng: random.Random) -> Scene:
    """A server that does well: shared prefixes that stay in the pool, clients that pause."""
    words = rng.randint(160, 280)
    return scene.ask(prefix=words).drew(prefix_tokens=words)


def bandwidth(scene: Scene, rng: random.Random) -> Scene:
    """One sequence at a time on a model whose weights are large against the caches."""
    layers = rng.randint(5, 7)
    shape = Shape(hidden=2048, layers=layers, heads=16, kv_heads=4, head_dim=128, ffn=5632)
    scene = replace(scene, shape=shape).set(pool_blocks=64)
    scene = scene.ask(clients=1, prefix=32, tail=(4, 8), outputs=(20, 28), pause_s=(0, 0))
    return scene.drew(layers=layers)


def preemption(scene: Scene, rng: random.Random) -> Scene:
    """A pool that takes short prompts in, and has no room for their long outputs."""
    blocks = rng.randint(40, 50)
    scene = scene.set(pool_blocks=blocks)
    clients = max(scene.group.clients, 6)
    scene = scene.ask(clients=clients, prefix=32, tail=(16, 32), outputs=(200, 280), pause_s=(0, 0))
    return scene.warm(8).drew(pool_blocks=blocks)


def eviction(scene: Scene, rng: random.Random) -> Scene:
    """More shared prefixes than the pool can keep."""
    blocks = rng.randint(150, 190)
    scene = scene.set(pool_blocks=blocks)
    scene = scene.ask(prefixes=10, prefix=480, tail=(8, 16), outputs=(12, 20), pause_s=(0, 0.05))
    return scene.warm(8).drew(pool_blocks=blocks)


def _far(scene: Scene, tier: TierSetting, *, pool: int = 110) -> Scene:
    """Prefixes that the pool does not keep and a tier does."""
    scene = scene.set(pool_blocks=pool, tiers=(tier,))
    scene = scene.ask(clients=2, prefixes=10, prefix=PREFIX, in_turn=True, tail=(8, 16), outputs=(16, 24))
    return scene.ask(pause_s=(0.0, 0.1)).warm(10)


def _rate(scene: Scene, tokens: int, seconds: float) -> float:
    """Bytes/s at which the whole blocks of so many tokens need so many seconds."""
    size = scene.settings.block_size
    return tokens // size * size * scene.shape.token_bytes / seconds


def offload(scene: Scene, rng: random.Random) -> Scene:
    """Hits lie on a slow file, and the engine stands still while they are read."""
    load = rng.uniform(0.35, 0.6)
    rate = _rate(scene, PREFIX, load)
    scene = _far(scene, TierSetting("file", 600, rate)).set(prefetch=False).ask(clients=1)
    return scene.drew(tier_bytes_per_s=rate, load_s=load)


def decode_stall(scene: Scene, rng: random.Random) -> Scene:
    """Blocks of running requests are moved to a slow tier and fetched back, while everybody waits."""
    load, every = rng.uniform(0.25, 0.4), rng.uniform(0.5, 0.7)
    rate = _rate(scene, 240, load)
    scene = scene.set(pool_blocks=600, tiers=(TierSetting("host", 600, rate),), prefetch=False, park_s=every)
    scene = scene.ask(clients=3, prefix=96, tail=(20, 40), outputs=(180, 260))
    return scene.ask(pause_s=(0.0, 0.2)).warm(6).drew(tier_bytes_per_s=rate, park_s=every)


def dropped_loads(scene: Scene, rng: random.Random) -> Scene:
    """The tier promises blocks and does not hold on to them: making room for them pushes them out."""
    prefixes, pool = rng.randint(12, 15), 110
    # A request brings 27 new blocks: the tier just holds the prefix whose turn it is, as its oldest.
    tier = TierSetting("host", 27 * prefixes - pool + 16)
    scene = _far(scene, tier, pool=pool).set(pin_promises=False)
    scene = scene.ask(clients=1, prefixes=prefixes, pause_s=(0.0, 0.05))
    return scene.drew(prefixes=prefixes, tier_blocks=tier.blocks)


def hit_rate(scene: Scene, rng: random.Random) -> Scene:
    """After a healthy past, each prompt begins with one word of its own."""
    words, after = rng.randint(420, 560), 10.0
    scene = scene.set(pool_blocks=700).ask(prefix=words, pause_s=(0.0, 0.1), outputs=(16, 24))
    return scene.ask(salted_after_s=after).warm(after + 1).drew(prefix_tokens=words)


def caching_off(scene: Scene, rng: random.Random) -> Scene:
    """The prefix cache is switched off, and the prompts share most of their text."""
    words = rng.randint(420, 560)
    return scene.set(caching=False).ask(prefix=words, outputs=(16, 24)).drew(prefix_tokens=words)


def network(scene: Scene, rng: random.Random) -> Scene:
    """Hits lie in another process's memory, behind a slow link."""
    load = rng.uniform(0.35, 0.6)
    rate = _rate(scene, PREFIX, load)
    scene = replace(_far(scene, TierSetting("remote", 600, rate)), link=rate).ask(clients=1)
    return scene.drew(link_bytes_per_s=rate, load_s=load)


def handover(scene: Scene, rng: random.Random) -> Scene:
    """Hits come over a fast link, and the engine hears of it late."""
    late = rng.uniform(0.3, 0.6)
    scene = _far(scene, TierSetting("remote", 600, FAST_LINK)).set(handover_s=late)
    return scene.drew(handover_s=late)


def host(scene: Scene, rng: random.Random) -> Scene:
    """Python that ranks requests runs in the engine's loop, in each step."""
    seconds = rng.uniform(0.05, 0.08)
    scene = scene.set(ranking_s=seconds).ask(outputs=(12, 20), pause_s=(0.0, 0.1))
    return scene.drew(ranking_s=seconds)


def tokenizer(scene: Scene, rng: random.Random) -> Scene:
    """The tokenizer is slow Python in the front end's only thread."""
    seconds = rng.uniform(0.5, 0.8)
    scene = scene.set(tokenizing_s=seconds).ask(prefix=400, outputs=(16, 24), pause_s=(0.0, 0.05))
    return scene.drew(tokenizing_s_per_1000=seconds)


def kv_lookup(scene: Scene, rng: random.Random) -> Scene:
    """Another thread holds the lock of the tiers' index nearly all the time."""
    held = rng.uniform(0.1, 0.2)
    scene = scene.set(
        pool_blocks=1500, tiers=(TierSetting("host", 600),), index_held_s=held, index_free_s=0.002
    )
    scene = scene.ask(clients=4, tail=(40, 60), outputs=(8, 16), pause_s=(0.0, 0.05))
    return scene.drew(index_held_s=held)


def cpu_throttled(scene: Scene, rng: random.Random) -> Scene:
    """The server's processes may use a fraction of a CPU."""
    cpus = rng.uniform(0.2, 0.35)
    return replace(scene, cpus=cpus).ask(pause_s=(0.0, 0.1)).warm(8).drew(cpus=cpus)


def queueing(scene: Scene, rng: random.Random) -> Scene:
    """Few requests may run at once, though pool and step have room."""
    limit = rng.randint(2, 3)
    clients = max(scene.group.clients, 8)
    scene = scene.set(max_num_seqs=limit).ask(clients=clients, outputs=(40, 60), pause_s=(0.0, 0.05))
    return scene.drew(max_num_seqs=limit)


def interference(scene: Scene, rng: random.Random) -> Scene:
    """New prompts are computed in long pieces inside the steps of those that decode."""
    words, pause = rng.randint(300, 400), rng.uniform(1.4, 1.8)
    scene = scene.set(pool_blocks=2000, max_num_batched_tokens=128)
    scene = scene.ask(clients=4, prefix=48, outputs=(100, 160), pause_s=(0.0, 0.05))
    long = Group(1, (0.0, 0.0), prefixes=0, prefix=words, tail=(0, 20), outputs=(1, 1), pause_share=pause)
    return replace(scene, beside=(long,)).drew(prompt_tokens=words, pause_over_answer=pause)


FAULTS = (
    Fault(NONE, HEALTHY, None, none, "nothing is wrong"),
    Fault("bandwidth", "bandwidth", "weights", bandwidth, "decode reads weights at the rate of memory"),
    Fault("capacity", "capacity", "preemption", preemption, "the pool is too small for the outputs"),
    Fault("eviction", "capacity", "prefix_eviction", eviction, "the pool cannot keep the shared prefixes"),
    Fault("offload", "offload", "slow_tier", offload, "hits lie on a slow file, without prefetch"),
    Fault(
        "decode-stall", "offload", "decode_stall", decode_stall, "live blocks move to a slow tier and back"
    ),
    Fault(
        "dropped-loads", "hit_rate", "promised_not_delivered", dropped_loads, "promised blocks are dropped"
    ),
    Fault("hit-rate", "hit_rate", "fell", hit_rate, "one differing word at the front of each prompt"),
    Fault("caching-off", "hit_rate", "disabled", caching_off, "prefix caching is off"),
    Fault("network", "network", "slow_link", network, "hits lie behind a slow link"),
    Fault("handover", "network", "handover", handover, "KV arrives fast and is handed over late"),
    Fault("host", "host", "scheduler", host, "Python in the engine's loop"),
    Fault("tokenizer", "host", "tokenizer", tokenizer, "a slow tokenizer in the front end"),
    Fault("kv-lookup", "host", "kv_lookup", kv_lookup, "the index of the tiers is locked"),
    Fault("cpu-throttled", "host", "cpu_throttled", cpu_throttled, "a CPU quota on the server"),
    Fault("queueing", "queueing", "admission_limit", queueing, "a low limit on running requests"),
    Fault("interference", "compute", "interference", interference, "long prefills inside decode steps"),
)
NAMES = tuple(fault.name for fault in FAULTS)


def chosen(names: str) -> tuple[Fault, ...]:
    """Faults by name, parted by commas. Raises KvdoctorError for an unknown one, or for `none` beside another."""
    known = {fault.name: fault for fault in FAULTS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise KvdoctorError(
            f"there is no fault {', '.join(unknown) or names!r}", f"one of {', '.join(NAMES)}"
        )
    if len(wanted) > 1 and (NONE in wanted or len(set(wanted)) < len(wanted)):
        raise KvdoctorError(f"{names} is no pair of faults", "name two different faults")
    return tuple(known[name] for name in wanted)


def scene_of(faults: Sequence[Fault], seed: int) -> Scene:
    """The scene of some faults together. The same seed draws the same magnitudes."""
    rng = random.Random(f"{seed}/{','.join(fault.name for fault in faults)}")
    scene = Scene()
    for fault in faults:
        scene = fault.make(scene, rng)
    return scene
