"""Decode of the reference engine against a CPU vLLM on one checkpoint and as many threads, in turn.

    VLLM_CPU_OMP_THREADS_BIND=0 vllm serve FOLDER --served-model-name m --dtype float32 ...
    python -m benchmarks.decode_vllm http://127.0.0.1:8000 m FOLDER --threads 1 --cases 1x128 8x128

A token's time is the difference of a long and a short answer to prompts of the same length, so that neither prefill
nor HTTP counts. Prompts are random token ids, new ones each time. The server's threads are its own affair: start it
with as many as are named here.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import urllib.request
from collections.abc import Callable

import torch

from benchmarks.decode import FEW, MANY, ours
from kvdoctor.reference.checkpoint import load_checkpoint

LIMIT_S = 600.0
Prompts = list[tuple[int, ...]]
Run = Callable[[Prompts, int], float]


def asked(url: str, model: str) -> Run:
    """Seconds of one completion request that holds all prompts."""

    def run(prompts: Prompts, tokens: int) -> float:
        body = {"model": model, "prompt": [list(prompt) for prompt in prompts], "max_tokens": tokens}
        body |= {"temperature": 0.0, "ignore_eos": True}
        request = urllib.request.Request(
            f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            told = json.load(answer)
        took = time.perf_counter() - begin
        if told["usage"]["completion_tokens"] != tokens * len(prompts):
            raise SystemExit(f"asked for {tokens * len(prompts)} tokens, got {told['usage']}")
        return took

    return run


def per_token(run: Run, draw: Callable[[], Prompts]) -> float:
    """Seconds of one more token of every sequence."""
    return (run(draw(), MANY) - run(draw(), FEW)) / (MANY - FEW)


def main() -> None:
    """Read the command line, print one line a case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=["1x128", "8x128"], metavar="BATCHxCONTEXT")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    vocabulary = load_checkpoint(options.folder)[0].vocab
    rng = random.Random(options.rounds)
    runs: dict[str, Run] = {
        "reference": lambda prompts, tokens: ours(options.folder, prompts)(tokens),
        "vllm": asked(options.url, options.model),
    }
    print(f"tokens/s of {options.rounds} rounds, {options.threads} threads, torch {torch.__version__}")
    for case in options.cases:
        batch, context = (int(part) for part in case.split("x"))

        def draw(batch: int = batch, context: int = context) -> Prompts:
            return [tuple(rng.randrange(10, vocabulary) for _ in range(context)) for _ in range(batch)]

        found: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, run in runs.items():
                found[name].append(batch / per_token(run, draw))
        told = "   ".join(
            f"{name} {statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"
            for name, each in found.items()
        )
        ratios = [a / b for a, b in zip(found["reference"], found["vllm"], strict=True)]
        print(f"{case:>8}  {told}   ratio {statistics.median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
