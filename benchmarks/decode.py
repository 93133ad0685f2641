"""How near the reference engine's decode comes to a plain read of the same memory on this CPU, and to transformers.

    python benchmarks/decode.py                   the table, about a minute on an idle machine
    python benchmarks/decode.py --transformers --cases 1x128 8x128     tokens/s of both on one checkpoint, in turn

The shape is a fp32 Llama of 0.6 GB. Each row: steps and plain reads in turn; the best and the median of both.
On a machine that others use, the best repeats say more than the medians, and neither is more than a lower bound.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kvdoctor.probes.decode import SMALL
from kvdoctor.probes.decode_run import Bench, Device, bench_of
from kvdoctor.probes.timing import settle
from kvdoctor.reference.blocks import BlockPool
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.checkpoint import load_checkpoint
from kvdoctor.reference.config import config_of
from kvdoctor.reference.engine import Engine
from kvdoctor.reference.model import Transformer
from kvdoctor.reference.request import Request
from kvdoctor.reference.scheduler import Scheduler

CPU = Device("CPU", "cpu")
CASES = ((1, 128), (1, 4096), (8, 128), (8, 4096), (32, 128))
FEW, MANY = 4, 24
"""Tokens generated: the difference leaves out the prefill."""
LEAST, SEED = 3, 3


def row(bench: Bench, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of steps and of plain reads, in turn, for a while."""
    settle(bench.step)
    steps: list[float] = []
    reads: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(reads) < LEAST:
        steps.append(bench.step())
        reads.append(bench.read())
    return steps, reads


def table(threads: Sequence[int], cases: Sequence[tuple[int, int]], seconds: float, kv_dtype: str) -> None:
    """Print one line a case."""
    print(
        f"KV {kv_dtype}; best and median of steps, and of them as shares of the best and the median plain read"
    )
    print("threads  batch x context       step ms          GB/s        share")
    config = config_of(SMALL)
    for count in threads:
        torch.set_num_threads(count)
        for batch, context in cases:
            bench = bench_of(config, (batch, context, kv_dtype), (config.layers,), CPU)[0]
            steps, reads = row(bench, seconds)
            best, middle = min(steps), statistics.median(steps)
            shares = [
                bench.bytes / step / (bench.read_bytes / read)
                for step, read in ((best, min(reads)), (middle, statistics.median(reads)))
            ]
            print(
                f"{count:>7}  {batch:>5} x {context:<7} {best * 1e3:>7.1f} {middle * 1e3:>6.1f} "
                f"{bench.bytes / best / 1e9:>6.1f} {bench.bytes / middle / 1e9:>6.1f} "
                f"{shares[0]:>6.2f} {shares[1]:.2f}",
                flush=True,
            )


def per_token(run: Callable[[int], float]) -> float:
    """Seconds of one more token of every sequence."""
    return (run(MANY) - run(FEW)) / (MANY - FEW)


def ours(folder: str, prompts: list[tuple[int, ...]]) -> Callable[[int], float]:
    """Seconds to generate some tokens for all prompts with the reference engine."""
    config, weights = load_checkpoint(folder)
    blocks = sum(-(-(len(prompt) + MANY) // 16) for prompt in prompts)

    def run(tokens: int) -> float:
        cache = PagedCache(config, blocks, 16)
        scheduler = Scheduler(BlockPool(blocks, 16, caching=False), max_num_batched_tokens=8192)
        engine = Engine(Transformer(config, weights, cache), scheduler)
        for index, prompt in enumerate(prompts):
            engine.add(Request(str(index), prompt, tokens))
        begin = time.perf_counter()
        while engine.busy:
            engine.step()
        return time.perf_counter() - begin

    return run


def theirs(model: Any, prompts: list[tuple[int, ...]]) -> Callable[[int], float]:
    """The same with transformers' generate."""

    def run(tokens: int) -> float:
        begin = time.perf_counter()
        with torch.no_grad():
            model.generate(
                torch.tensor(prompts),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return time.perf_counter() - begin

    return run


def against_transformers(threads: Sequence[int], cases: Sequence[tuple[int, int]], rounds: int) -> None:
    """Print tokens/s of both, measured in turn on one checkpoint."""
    import transformers

    torch.manual_seed(SEED)
    known = {key: value for key, value in SMALL.items() if key not in ("model_type", "torch_dtype")}
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**known, max_position_embeddings=8192)
    ).eval()
    print(
        f"tokens/s, best and median of {rounds}; transformers {transformers.__version__}, torch {torch.__version__}"
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for count in threads:
            torch.set_num_threads(count)
            for batch, context in cases:
                prompts = [tuple(torch.randint(16000, (context,)).tolist()) for _ in range(batch)]
                pair = ours(folder, prompts), theirs(model, prompts)
                seconds = [[per_token(run) for run in pair] for _ in range(rounds)]
                columns = list(zip(*seconds, strict=True))
                told = "   ".join(
                    f"{name} {batch / min(each):.1f} {batch / statistics.median(each):.1f}"
                    for name, each in zip(("ours", "transformers"), columns, strict=True)
                )
                print(f"{count} threads  {batch:>2} x {context:<5} {told}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="*", default=[2, 1])
    parser.add_argument("--cases", nargs="*", default=[f"{b}x{c}" for b, c in CASES], metavar="BATCHxCONTEXT")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each case of the table")
    parser.add_argument("--rounds", type=int, default=3, help="with --transformers")
    parser.add_argument("--kv-dtype", default="fp32")
    parser.add_argument("--transformers", action="store_true")
    asked = parser.parse_args()
    cases = [(int(b), int(c)) for b, _, c in (case.partition("x") for case in asked.cases)]
    if asked.transformers:
        against_transformers(asked.threads, cases, asked.rounds)
    else:
        table(asked.threads, cases, asked.seconds, asked.kv_dtype)


if __name__ == "__main__":
    main()
