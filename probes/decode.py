"""Decode as this machine can: a real paged engine on a model's shape, held against a plain read of the same memory.

Footprint: the model's weights and KV, or a few layers of it where that is more than half of the free memory, than
4 GiB of it (24 of a GPU), or than `--size`; up to about a minute of all processors, or of the GPU. Beside a service no
more than half a burst of 50 ms can read, and about a second of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvdoctor.errors import Unavailable
from kvdoctor.probes import cuda, manners
from kvdoctor.probes.child import Tell
from kvdoctor.probes.decode_plan import NoRoom, Work, fewest_layers, kv_layer_bytes, plan
from kvdoctor.probes.decode_result import Asked, Times, result
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.timing import ALONE, BURST_S, Pace, settle
from kvdoctor.reference.config import ModelConfig, config_of

if TYPE_CHECKING:
    from kvdoctor.probes.decode_run import Bench, Device


MOST_BYTES, MOST_DEVICE_BYTES = 4 * 2**30, 24 * 2**30
"""Taken at most of system memory, or of a GPU, unless --size says so: filling it with numbers takes time."""
SHARED_BYTES = 2**30
"""Likewise beside a service, host or GPU, before what a burst can read."""
SECONDS = 90.0
ROUNDS, LEAST_ROUNDS = 7, 3
MEASURE_S = 20.0
"""Seconds after which no further round begins, once there are the least."""
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""Beside a service a thread of ours that waits for another sleeps: spinning takes the processor that it waits for."""
SMALL: Mapping[str, object] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2816,
    "vocab_size": 16000,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
"""What is decoded where no model is named: 0.6 GB in fp32."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    config: Mapping[str, object] = field(default_factory=lambda: SMALL)
    """A config.json of a GQA transformer."""
    model: str = "a Llama of 0.6 GB"
    batch: int = 1
    context: int = 1024
    """Tokens that every sequence attends to."""
    kv_dtype: str = ""
    """Empty takes that of the weights."""
    size: int = 0
    """Most bytes to take; 0 for half of what is free, and 4 GiB of system memory or 24 of a GPU at most."""
    device: str = "auto"
    shared: bool = False
    """Somebody else uses this memory: short bursts with rests between them, and less of it."""
    native: bool = True
    """False keeps to torch on a CPU."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    on_card = options.device != "cpu" and cuda.has_driver()
    on_host = options.device in ("auto", "cpu")
    what = " or ".join(["memory bandwidth of every processor"] * on_host + ["the GPU"] * on_card)
    return Footprint(
        SECONDS,
        host_bytes=_taken(options, min(manners.room(), _most(options, is_host=True))) if on_host else 0,
        device_bytes=_taken(options, _most(options, is_host=False)) if on_card else 0,
        loads=f"{what}, in bursts" if options.shared else what,
    )


def _taken(options: Options, room: int) -> int:
    """Bytes of what would be built in so much room; 0 where nothing fits."""
    try:
        return _planned(options, *_shape(options), room, 0).bytes
    except Unavailable:
        return 0


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Build, warm up, time steps and plain reads in turn, and say what the whole model would do."""
    if options.shared:
        os.environ.update(PATIENT)  # before torch is loaded, whose threads read it once
    from kvdoctor.probes.decode_run import bench_of, device_of

    config, kv_dtype = _shape(options)
    device = device_of(options.device)
    pace = Pace(options.shared, on_cpu=device.is_host, until=time.monotonic() + SECONDS)
    room = min(device.room(), _most(options, is_host=device.is_host))
    if pace.shared:
        from kvdoctor.probes.decode_gentle import step_bytes

        device.reserve(room)
        room = min(room, step_bytes(device, pace))
        config = _small_enough(options, config, kv_dtype, device.cache)
    work = _fitting(options, config, kv_dtype, room, device.cache)
    device.reserve(work.bytes)
    tell(f"building {work.counts[-1]} of {config.layers} layers, {work.bytes / 2**30:.1f} GiB", 0.05)
    wanted = (options.batch, options.context, kv_dtype)
    benches = bench_of(
        config.with_layers(work.counts[-1]), wanted, work.counts, device, native=options.native, pace=pace
    )
    times, course = _timed(benches, device, tell, pace)
    asked = Asked(_name(options, config), options.batch, options.context, config, kv_dtype, options.native)
    return result(asked, work.counts, benches, times, course)


def _small_enough(options: Options, config: ModelConfig, kv_dtype: str, cache: int) -> ModelConfig:
    """Our own model with the fewest layers that say something, so that filling them leaves time for steps.

    One that was named stays as it is.
    """
    if options.config is not SMALL:
        return config
    kv_layer = kv_layer_bytes(config, options.batch, options.context, kv_dtype)
    return config.with_layers(fewest_layers(config, kv_layer, cache))


def _name(options: Options, config: ModelConfig) -> str:
    """What was decoded, for people: our own model may have fewer layers."""
    whole = options.config is not SMALL or config.layers == SMALL["num_hidden_layers"]
    return options.model if whole else f"a Llama of {config.layers} layers"


def _most(options: Options, *, is_host: bool) -> int:
    """Bytes that may be taken at most, whatever is free."""
    if options.size:
        return options.size
    if options.shared:
        return SHARED_BYTES
    return MOST_BYTES if is_host else MOST_DEVICE_BYTES


def _timed(benches: list[Bench], device: Device, tell: Tell, pace: Pace) -> tuple[Times, dict[str, Any]]:
    """All rounds, and what may have disturbed them: on a GPU also the same step without its graph."""
    before, used = pace.elapsed_s, time.process_time()
    times, settled = _rounds(benches, tell, pace)
    course: dict[str, Any] = {"settled": settled, **(pace.about() if pace.shared else {})}
    if device.is_host:
        share = (time.process_time() - used) / (pace.elapsed_s - before) / (device.threads or 1)
        timed_on = {"waiting_left_out": True} if pace.shared else {}
        return times, {**course, "on_processor": min(1.0, share), **timed_on}
    if pace.shared:
        return times, course
    settle(benches[-1].launched)
    launched = [benches[-1].launched() for _ in range(LEAST_ROUNDS)]
    return times, {**course, "seconds_without_graph": launched}


def _shape(options: Options) -> tuple[ModelConfig, str]:
    """The model's sizes and the KV dtype."""
    config = config_of(options.config)
    return config, options.kv_dtype or config.dtype


def _planned(options: Options, config: ModelConfig, kv_dtype: str, room: int, cache: int) -> Work:
    """The layers to build."""
    kv_layer = kv_layer_bytes(config, options.batch, options.context, kv_dtype)
    return plan(config, kv_layer, room=room, cache=cache)


def _fitting(options: Options, config: ModelConfig, kv_dtype: str, room: int, cache: int) -> Work:
    """The layers to build; beside a service the reason says what limits a step."""
    try:
        return _planned(options, config, kv_dtype, room, cache)
    except NoRoom as small:
        if not options.shared:
            raise
        reason = f"beside a service a step is to end within {1e3 * BURST_S:.0f} ms: {small.reason}"
        raise Unavailable(
            reason, f"--model of a smaller one, a lower --batch or --context, or {ALONE}"
        ) from small


def _rounds(benches: list[Bench], tell: Tell, pace: Pace) -> tuple[Times, bool]:
    """Seconds of each bench's steps and of the plain reads, in turn, so that a disturbance meets all alike.

    Beside a service on these processors, seconds on them: nice as we are, the wait for one may be a hundred times that.
    """
    works = [*(bench.step for bench in benches), benches[-1].read]
    if pace.shared:
        from kvdoctor.probes.decode_gentle import check_step

        check_step(benches[-1].step, pace)
    settled = all([settle(lambda work=work: pace.spend(work), most=pace.most) for work in works])  # type: ignore[misc]
    took = pace.burst if pace.shared and pace.on_cpu else pace.spend
    steps: list[list[float]] = [[] for _ in benches]
    reads: list[float] = []
    spent = 0.0
    rounds = pace.repeats(ROUNDS)
    while len(reads) < rounds and (len(reads) < LEAST_ROUNDS or spent < MEASURE_S):
        if reads and pace.used_up:
            break
        tell(f"round {len(reads) + 1} of {rounds}", 0.3 + 0.7 * len(reads) / rounds)
        for bench, taken in zip(benches, steps, strict=True):
            taken.append(took(bench.step))
        reads.append(took(benches[-1].read))
        spent += reads[-1] + sum(taken[-1] for taken in steps)
    return Times(steps, reads), settled
