"""Run every fault of the lab several times and print what `kvdoctor demo` answered: the confusion table.

    python -m benchmarks.demo --runs 3 --out demo.jsonl
    python -m benchmarks.demo --runs 1 --faults none offload capacity,host

Every run draws other magnitudes. The second table holds the ledger against what the clients saw, and the injected
delay, where a fault has one, against the seconds that its finding explains. --first (root) lets the lab's processes
run before others on a machine that is not ours alone. The exit status is 1 if anything was not named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.truth import MEAN_RATIO, MEAN_S, SUM_RATIO, top_parts
from kvdoctor.commands.demo_all import run
from kvdoctor.errors import KvdoctorError
from kvdoctor.lab.faults import NAMES

PAIRS = (
    "host,capacity",
    "queueing,host",
    "dropped-loads,host",
    "caching-off,tokenizer",
    "hit-rate,tokenizer",
)
INJECTED_RATIO = 0.20
# Magnitudes that are seconds of every request, and the finding that they should come back in.
INJECTED = {"load_s": ("offload", "network"), "handover_s": ("network",)}
FIRST = "-10"  # niceness of a session's group against those of others (sched(7), "The autogroup feature")
SHARES = "10240"  # of a cgroup, where 1024 is usual
LOOK_S = 0.2


def put_first(stop: threading.Event) -> None:
    """Give the sessions of the lab's processes precedence as they come up, and the cgroup of a quota too."""
    done: set[str] = set()
    while not stop.wait(LOOK_S):
        for shares in Path("/sys/fs/cgroup").glob("cpu*/kvlab-*/cpu.shares"):
            with contextlib.suppress(OSError):
                shares.write_text(SHARES, encoding="ascii")
        for process in Path("/proc").iterdir():
            if process.name in done or not process.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if b"kvdoctor.lab." in (process / "cmdline").read_bytes():
                    (process / "autogroup").write_text(FIRST, encoding="ascii")
                    done.add(process.name)


def runs(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run's fault and answer. A run that fails is told on standard error and left out."""
    for number in range(options.runs):
        for name in options.faults:
            began = time.monotonic()
            try:
                contract = run(name, options.seconds, options.seed + number, save=options.keep)
            except KvdoctorError as error:
                print(f"{name}: {error.message}", file=sys.stderr)
                continue
            took = time.monotonic() - began
            mark = "named" if contract["truth"]["named"] else "NOT NAMED"
            print(
                f"{name} seed {options.seed + number}: {given(contract)}, {mark}, {took:.0f} s",
                file=sys.stderr,
            )
            yield name, contract | {"took_s": round(took, 1)}


def given(contract: Mapping[str, Any]) -> str:
    """The answer in one word or two, and what contributes."""
    names = [(contract["primary"], contract["subclass"])]
    names += [(other["bound"], other["subclass"]) for other in contract["contributing"]]
    told = ["/".join(filter(None, pair)) for pair in names]
    return told[0] + (f" (+ {', '.join(told[1:])})" if told[1:] else "")


def confusion(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Markdown: a row a fault, its right name, what was answered and how often, and how many were named."""
    rows = ["| fault | is | answered | named |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(name for name, _ in found):
        mine = [contract for other, contract in found if other == name]
        truths = mine[0]["truth"]["faults"]
        right = " and ".join("/".join(filter(None, (t["primary"], t["subclass"]))) for t in truths)
        pair = len(truths) > 1
        answers = Counter(given(c) if pair else given(c).partition(" (")[0] for c in mine)
        told = ", ".join(f"{answer} x{count}" for answer, count in answers.most_common())
        named = sum(contract["truth"]["named"] for contract in mine)
        rows.append(f"| {name} | {right} | {told} | {named} of {len(mine)} |")
    return rows


def against_clients(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Markdown: means of ledger and clients, whether they agree, and the injected delay found."""
    rows = ["| fault | TTFT ledger, clients | ITL ledger, clients | parts sum | injected, found |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for name, contract in found:
        cells = [_pair(contract, metric) for metric in ("ttft", "itl")]
        rows.append(f"| {name} | {' | '.join(cells)} | {_sums(contract)} | {_injected(contract)} |")
    return rows


def _pair(contract: Mapping[str, Any], metric: str) -> str:
    ledger = contract["ledger"].get(metric)
    told = ledger["seconds"] if ledger else None
    real = contract["truth"]["clients"][f"{metric}_seconds"]
    if told is None or real is None:
        return "none"
    ok = abs(told - real) <= MEAN_RATIO * real + MEAN_S
    return f"{told * 1e3:.1f}, {real * 1e3:.1f} ms{'' if ok else ' OFF'}"


def _sums(contract: Mapping[str, Any]) -> str:
    metrics = [ledger for ledger in contract["ledger"].values() if ledger]
    exact = all(abs(top_parts(led) - led["seconds"]) <= SUM_RATIO * led["seconds"] for led in metrics)
    return "exact" if exact else "NOT exact"


def _injected(contract: Mapping[str, Any]) -> str:
    """The delay that was put in, and the seconds of the finding that it should come back in."""
    magnitudes = contract["truth"]["magnitudes"]
    for name, bounds in INJECTED.items():
        for finding in contract["findings"]:
            if name in magnitudes and finding["bound"] in bounds and finding["verdict"] == "likely":
                real, told = magnitudes[name], finding["share_seconds"]
                ok = abs(told - real) <= INJECTED_RATIO * real
                return f"{real * 1e3:.0f}, {told * 1e3:.0f} ms{'' if ok else ' OFF'}"
    return ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--faults", nargs="+", default=[*NAMES], help="faults, or pairs with a comma")
    parser.add_argument("--pairs", action="store_true", help="the pairs instead of the faults")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON lines, one a run")
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--first", action="store_true", help="let the lab run before others (root)")
    options = parser.parse_args()
    options.faults = [*PAIRS] if options.pairs else options.faults
    return options


def main() -> int:
    options, found, stop = arguments(), [], threading.Event()
    if options.first:
        threading.Thread(target=put_first, args=(stop,), daemon=True).start()
    for name, contract in runs(options):
        found.append((name, contract))
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"fault": name, **contract}) + "\n")
    stop.set()
    print("\n".join([*confusion(found), "", *against_clients(found)]))
    return int(not all(contract["truth"]["named"] for _, contract in found))


if __name__ == "__main__":
    sys.exit(main())
