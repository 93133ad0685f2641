"""Hold the roofline against published figures: held, missed, refused, a file and a case.

    python -m benchmarks.known_answers ../shared/known-answers [--all]

The folder (or $KVDOCTOR_SHARED/known-answers) holds YAML files of cases; model configs lie beside it in
`model-configs`. The exit status is 1 if a case was missed or refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks import known_kv, known_rate
from benchmarks.known_ask import scratch
from benchmarks.known_case import Case, Verdict
from kvdoctor.errors import KvdoctorError

KINDS: dict[str, Callable[[Case], Verdict]] = {
    "total": known_kv.sizes,
    "alloc": known_kv.sizes,
    "alloc_bytes": known_kv.sizes,
    "request": known_kv.sizes,
    "pool": known_kv.pools,
    "hybrid_pool": known_kv.pools,
    "max_len": known_kv.pools,
    "block_bytes": known_kv.layouts,
    "bytes_per_page": known_kv.layouts,
    "bytes_per_token_layer": known_kv.layouts,
    "transfer_bytes": known_kv.layouts,
    "concurrency": known_kv.concurrency,
    "ratio": known_kv.ratio,
    "weights": known_kv.resident,
    "decode": known_rate.ceiling,
    "refute": known_rate.claim,
    "max_throughput": known_rate.max_throughput,
    "prefill": known_rate.prompt_rate,
    "cluster": known_rate.prompt_rate,
    "bandwidth": known_rate.tier,
    "fetch_time": known_rate.fetch,
    "fetch_time_range": known_rate.fetch_range,
    "step_time": known_rate.step_time,
    "fetch_vs_recompute": known_rate.rehydrate,
}


def verdict(case: Case) -> Verdict:
    """Judge one case; a refusal counts where the entry itself says that it is not modelled."""
    kind = KINDS.get(str(case.entry.get("kind")))
    if kind is None:
        return Verdict("refused", f"the kind {case.entry.get('kind')!r} is not understood")
    try:
        return kind(case)
    except KvdoctorError as error:
        honest = case.entry.get("status") == "not modelled"
        return Verdict("held" if honest else "refused", error.message)
    except (KeyError, TypeError) as error:
        return Verdict("refused", f"the entry lacks or misspells {error}")


def main() -> int:
    """Print a table a file and every case that was not held (all of them with --all)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=os.environ.get("KVDOCTOR_SHARED", ""))
    parser.add_argument("--all", action="store_true", help="print the held cases too")
    options = parser.parse_args()
    folder = Path(options.folder)
    folder = folder / "known-answers" if (folder / "known-answers").is_dir() else folder
    files = sorted(folder.glob("*.yaml"))
    if not files:
        print(f"no YAML files in {folder}", file=sys.stderr)
        return 2
    models, own, total = folder.parent / "model-configs", scratch(), Counter[str]()
    for file in files:
        counts = Counter[str]()
        for entry in yaml.safe_load(file.read_text(encoding="utf-8")):
            found = verdict(Case(entry, models, own))
            counts[found.outcome] += 1
            if options.all or found.outcome != "held":
                print(f"  {found.outcome:8} {entry['id']}: {found.detail}")
        print(
            f"{file.name}: " + ", ".join(f"{counts[name]} {name}" for name in ("held", "missed", "refused"))
        )
        total += counts
    print("all: " + ", ".join(f"{total[name]} {name}" for name in ("held", "missed", "refused")))
    return 0 if total["held"] == sum(total.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
