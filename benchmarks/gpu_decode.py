"""Decode of Llama-3.1-8B's shape on a CUDA device: kernels against float64, then steps against a plain read of HBM.

    python benchmarks/gpu_decode.py [--minutes 6] [--out FILE]      one JSON line a part, then a table

First every KV dtype of the kernels is held against float64 over shuffled pages. Then (batch 1, 32) x (4k, 32k), bf16
weights and KV, as one CUDA graph and kernel by kernel: the difference is the launch overhead. Each part fails alone,
and what is known goes to FILE at once. Goal 90% of the read rate measured in the same run, bar 80% at 32k; exit 1 where
a kernel is wrong or the bar is missed, 2 without a card. Not run on a card yet.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import cuda, decode
from kvdoctor.probes.decode import Options
from kvdoctor.reference.attention import Rows
from kvdoctor.reference.attention import decode as attend
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.kvformat import FORMATS
from kvdoctor.roofline.presets import preset_config

MODEL = "Llama-3.1-8B"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
CASES = ((1, 4096), (1, 32768), (32, 4096), (32, 32768))
LENGTHS = (0, 1, 17, 1000, 4097)
# Unit-variance inputs in bf16: weights and values rounded to 8 bits each.
MOST_ERROR = 2e-2
KEPT_S = 160.0
"""Seconds kept for the cases: compiling the kernels of every format may take as long as it wants to."""
BAR, BAR_CONTEXT = 0.8, 32768


Say = Callable[[Mapping[str, Any]], None]


def error(kv: str, page: int, group: int, device: str = "cuda", dtype: str = "bf16") -> float:
    """Largest difference of the kernel from float64 over the values as they are stored."""
    torch.manual_seed(0)
    kind = DTYPES[dtype]
    config = ModelConfig(1, 64, 8 * group, 8, 128, 10, 10, dtype=dtype)
    columns = -(-max(LENGTHS) // page)
    cache = PagedCache(config, len(LENGTHS) * columns, page, dtype=kv, device=device)
    slots = torch.arange(cache.blocks * page, device=device)
    keys, values = torch.randn(2, len(slots), 8, 128, device=device, dtype=kind)
    cache.write(0, (slots // page, slots % page), keys, values)
    tables = torch.randperm(cache.blocks).view(len(LENGTHS), columns).int().to(device)
    query = torch.randn(len(LENGTHS), config.heads, 128, device=device, dtype=kind)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=device)
    found = attend(query, cache, 0, Rows(tables, lengths))
    worst = 0.0
    for row, length in enumerate(LENGTHS):
        stored = [x[:, :length].double().repeat_interleave(group, 0) for x in cache.read(0, tables[row])]
        weights = (stored[0] @ query[row].double()[:, :, None])[..., 0].div(math.sqrt(128)).softmax(-1)
        exact = (weights[:, None, :] @ stored[1])[:, 0] if length else torch.zeros_like(found[row]).double()
        worst = max(worst, float((found[row].double() - exact).abs().max()))
    return worst


def kernels(say: Say, end: float) -> bool:
    """Say the error of every format; whether all were looked at and are small."""
    good = True
    for kv in FORMATS:
        for page in (16, 64):
            about = {"kernel": kv, "page": page}
            if time.monotonic() > end:
                good = False
                say({**about, "failed": "no time left"})
                continue
            try:
                worst = error(kv, page, 4)
            except (KvdoctorError, RuntimeError) as failure:
                good = False
                say({**about, "failed": f"{type(failure).__name__}: {failure}"})
                continue
            good = good and worst < MOST_ERROR
            say({**about, "error": worst, "is_small": worst < MOST_ERROR})
    return good


def case(batch: int, context: int, say: Say) -> dict[str, Any] | None:
    """Measure one case; None where it failed, which is said."""
    options = Options(config=preset_config(MODEL), model=MODEL, batch=batch, context=context, device="cuda")
    try:
        found = decode.run(options, lambda doing, share: None)
    except (KvdoctorError, Unavailable, RuntimeError) as failure:
        say({"batch": batch, "context": context, "failed": f"{type(failure).__name__}: {failure}"})
        return None
    finally:
        torch.cuda.empty_cache()
    say(found)
    return found


def line(found: Mapping[str, Any]) -> str:
    """One line of the table."""
    about = found["conditions"]
    launched = min(about["seconds_without_graph"])
    return (
        f"{about['batch']:>3} x {about['context']:<6} {found['step_seconds'] * 1e3:8.2f} ms "
        f"{found['tokens_per_s']:9.0f} tokens/s {found['achieved_bytes_per_s'] / 1e9:7.0f} GB/s "
        f"{found['fraction']:6.1%} of the read; kernel by kernel {launched * 1e3:.2f} ms"
    )


def sayer(file: Path | None) -> Say:
    """Print a JSON line, and add it to a file at once."""

    def say(found: Mapping[str, Any]) -> None:
        text = json.dumps(found)
        print(text, flush=True)
        if file is not None:
            with file.open("a", encoding="utf-8") as into:
                into.write(text + "\n")

    return say


def main() -> int:
    """Check, measure, and say whether the bar is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    end, say = time.monotonic() + 60 * asked.minutes, sayer(asked.out)
    if missing := cuda.missing():
        print(f"{missing.reason}: {missing.cure}")
        return 2
    say({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda})
    good = kernels(say, end - KEPT_S)
    results = []
    for batch, context in CASES:
        if time.monotonic() > end - KEPT_S / len(CASES):
            say({"batch": batch, "context": context, "failed": "no time left"})
        elif (found := case(batch, context, say)) is not None:
            results.append(found)
    print("\n".join(line(found) for found in results))
    long = [found for found in results if found["conditions"]["context"] == BAR_CONTEXT]
    return 0 if good and long and all(found["fraction"] >= BAR for found in long) else 1


if __name__ == "__main__":
    sys.exit(main())
