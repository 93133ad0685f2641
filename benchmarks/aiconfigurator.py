"""Decode ceilings beside NVIDIA's aiconfigurator (PyPI, Apache-2.0) in its speed-of-light mode, offline.

    python -m venv aic && aic/bin/pip install aiconfigurator
    python -m benchmarks.aiconfigurator aic/bin/aiconfigurator ../shared/model-configs

Two comparisons a row. Plain: our floor as the command prints it. Same: our floor with the assumptions that
aiconfigurator makes where they differ from ours (see `NOTES`), which shows that the rest agrees. The exit status
is 1 where a figure is off in both by more than 2% (dense) or 10% (MoE, MLA); `=` marks those that are off in the
plain one alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.machine import card_of
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import decode_of
from kvdoctor.roofline.shape import Layer, Layout, ModelShape, Weight
from kvdoctor.roofline.step import Load

DENSE, OTHER = 0.02, 0.10
NOTES = """\
Where they differ, and why (found by changing one size of a config at a time):
- dense: aiconfigurator adds the activations that norms, the activation function and each product read and write,
  about 1% of the step at batch 32, and with TP the all-reduces, 0.28 ms of a 70B's step at batch 32 on 4 GPUs.
  Ours keeps both out of the ceiling, since kernels fuse the first and may hide the second; the all-reduces are
  in the expectation that stands beside it.
- MoE at batch 32: it lets every token choose experts that no other token chose, min(E, B*k) of them. Uniform
  routing touches E*(1-(1-k/E)^B): of 128 experts 112 and not 128, of 256 experts 163 and not 256. Ours is the
  floor that real routing can reach; `same` counts experts its way.
- MLA: its speed-of-light MLA block counts the KV and the absorbed kv_b products only. Changing q_lora_rank does
  not move its answer: q_a, q_b, kv_a and o_proj (the larger part of the attention's weights) are not in it.
- DeepSeek: it runs shared experts beside the routed ones and counts the longer of the two, and it treats the
  three dense layers as MoE layers.
`same` takes all of these over into our own sum.
"""


@dataclass(frozen=True)
class Setup:
    """One model on one number of GPUs, in both tools' words."""

    config: str
    gpus: int
    kind: str
    extra: tuple[str, ...] = ()


SETUPS = (
    Setup("Llama-3.1-8B", 1, "dense"),
    Setup("Llama-3.1-70B", 4, "dense"),
    Setup("Mixtral-8x7B-v0.1", 2, "MoE", ("--moe-tp-size", "2")),
    Setup("Qwen3-30B-A3B", 1, "MoE", ("--moe-tp-size", "1")),
    Setup("Qwen3-235B-A22B", 8, "MoE", ("--moe-tp-size", "8")),
    Setup("DeepSeek-V3", 8, "MLA", ("--moe-tp-size", "8")),
)
SYSTEMS = {"h100_sxm": "H100", "h200_sxm": "H200"}
LOADS = tuple((batch, context) for batch in (1, 32) for context in (4096, 32768))


def theirs(tool: str, folder: Path, setup: Setup, system: str, batch: int, context: int) -> float:
    """Seconds of one generated token by aiconfigurator. Raises RuntimeError with what it printed."""
    command = [tool, "cli", "estimate", "--no-color", "--log-level", "ERROR", "--model-path", str(folder)]
    command += ["--system", system, "--backend", "trtllm", "--estimate-mode", "static_gen"]
    command += ["--isl", str(context), "--osl", "2", "--batch-size", str(batch), "--tp-size", str(setup.gpus)]
    command += ["--kvcache-quant-mode", "bfloat16", "--database-mode", "SOL", *setup.extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"TPOT:\s+([\d.,]+) ms", done.stdout)
    if not found:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return float(found[1].replace(",", "")) / 1e3


def question(shape: ModelShape, setup: Setup, card: str, batch: int, context: int) -> Question:
    """The same step; the second token is generated over context + 1 tokens."""
    return Question(
        shape,
        card_of(card),
        Layout(tp=setup.gpus),
        Load(float(batch), float(context + 1)),
    )


def ours(asked: Question) -> float:
    """Seconds of our floor."""
    seconds = decode_of(asked).seconds_floor
    if seconds is None:
        raise RuntimeError("no bandwidth")
    return seconds


# Projections that aiconfigurator's MLA block leaves out.
_LEFT_OUT = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")


def _taken_over(layer: Layer) -> Layer:
    """A layer as aiconfigurator sums it: MLA without most projections, shared experts hidden behind routed ones."""

    def counted(weight: Weight) -> bool:
        left_out = layer.cache is not None and layer.cache.latent and weight.module.endswith(_LEFT_OUT)
        return not left_out and weight.part != "shared"

    return replace(layer, weights=tuple(w for w in layer.weights if counted(w)))


def activation_bytes(shape: ModelShape, tokens: float, tp: int) -> float:
    """Bytes that norms, activation functions and products read and write beside weights and KV, of 16 bits each.

    A norm with its residual reads and writes 2*H values twice a layer; a product its inputs and outputs, of which
    the divided side is 1/TP; the gate 2*I in and I out. Only products of attention and dense FFN are counted.
    """
    total = 0.0
    for layer in shape.layers:
        total += 2 * 4 * shape.hidden
        for weight in layer.weights:
            if weight.part not in ("attention", "dense") or (layer.cache and layer.cache.latent):
                continue
            row_parallel = weight.module.endswith(("o_proj", "down_proj"))
            total += weight.inputs / tp if row_parallel else 0.0
            total += weight.outputs if row_parallel else weight.outputs / tp
            total += shape.hidden if weight.module.endswith(("q_proj", "up_proj", "gate_proj")) else 0.0
            total += 3 * weight.inputs / tp if weight.module.endswith("down_proj") else 0.0
    return 2 * tokens * total


def same(asked: Question) -> float:
    """Seconds with aiconfigurator's assumptions: its MLA block, hidden shared experts, experts never shared.

    Activations and messages, which it adds, are added here too.
    """
    shape = asked.shape
    last = shape.layers[-1]
    layers = tuple(last if last.experts else layer for layer in shape.layers)
    done = {id(layer): _taken_over(layer) for layer in layers}
    changed = replace(asked, shape=replace(shape, layers=tuple(done[id(layer)] for layer in layers)))
    machine, decode = asked.machine, decode_of(changed)
    if machine is None or decode.step is None:
        raise RuntimeError("no bandwidth")
    moved = decode.bytes.weights_high + decode.bytes.kv + decode.bytes.state
    moved += activation_bytes(shape, asked.load.batch, asked.layout.tp)
    return moved / machine.bandwidth + decode.step.seconds_by_part["collectives"]


def row(tool: str, folder: Path, setup: Setup, system: str, load: tuple[int, int]) -> tuple[str, bool]:
    """One line of the table, and whether it is within its bar."""
    batch, context = load
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    asked = question(shape_from_config(config), setup, SYSTEMS[system], batch, context)
    reference = theirs(tool, folder, setup, system, batch, context)
    plain, alike = ours(asked) / reference - 1, same(asked) / reference - 1
    bar = DENSE if setup.kind == "dense" else OTHER
    good = abs(alike) <= bar or abs(plain) <= bar
    mark = "" if abs(plain) <= bar else ("  =" if good else "  <- off")
    text = (
        f"{setup.config:18} {setup.kind:5} {SYSTEMS[system]:4} x{setup.gpus} {batch:5} {context:7} "
        f"{reference * 1e3:9.3f} {ours(asked) * 1e3:9.3f} {plain:+7.1%} {alike:+7.1%}{mark}"
    )
    return text, good


def main() -> int:
    """Print the side-by-side table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", help="path of the aiconfigurator executable")
    parser.add_argument("configs", type=Path, help="folder with NAME.json configs")
    options = parser.parse_args()
    print(
        f"{'model':18} {'kind':5} {'GPU':4}    {'batch':>5} {'context':>7} {'theirs ms':>9} {'ours ms':>9}",
        end="",
    )
    print(f" {'plain':>7} {'same':>7}")
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for setup in SETUPS:
            folder = Path(scratch) / setup.config
            folder.mkdir()
            text = (options.configs / f"{setup.config}.json").read_text(encoding="utf-8")
            (folder / "config.json").write_text(text, encoding="utf-8")
            for system in SYSTEMS:
                for load in LOADS:
                    line, good = row(options.tool, folder, setup, system, load)
                    bad += not good
                    print(line, flush=True)
    print(f"\n{NOTES}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
