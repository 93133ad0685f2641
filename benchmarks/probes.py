"""The probes against other people's tools, paired in one run: a C read loop, mbw, fio, iperf3.

python -m benchmarks.probes [memory] [disk] [network] [--rounds 5] [--folder .]

Needs gcc, and from Debian mbw, fio, iperf3 and iproute2; `network` needs the right to make a network namespace. Each
round runs the probe and its yardstick one after the other, as nice as each other; a ratio is the probe's rate over the
yardstick's, and the median of the rounds' ratios is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvdoctor.probes.child import run_child
from kvdoctor.probes.manners import processors

MIB = 2**20
SIZE = 256 * MIB
NICE = ["nice", "-n", "10"]
LIMIT_S = 240.0
RATES_MBIT = (200, 500)
BURST = "64kb"
"""tbf's bucket: 512 kbit."""
Pair = tuple[list[float], list[float]]


def output(argv: list[str], **options: Any) -> str:
    """Run a yardstick and return what it prints."""
    done = subprocess.run(
        [*NICE, *argv], capture_output=True, text=True, check=True, timeout=LIMIT_S, **options
    )
    return str(done.stdout)


def probe(name: str, **options: Any) -> list[dict[str, Any]]:
    """Run a probe in its child and return its rows."""
    rows: list[dict[str, Any]] = run_child(name, options, limit_s=LIMIT_S)["rows"]
    return rows


def repeats(rows: list[dict[str, Any]], op: str, **about: Any) -> list[float]:
    """Return the repeats of the row that fits, in bytes/s."""
    return next(
        [float(each) for each in row["repeats"]]
        for row in rows
        if row["op"] == op and all(about[key] == row.get(key, row["conditions"].get(key)) for key in about)
    )


def compared(name: str, pairs: list[Pair], low: float, high: float) -> dict[str, Any]:
    """Return the ratios of the rounds' medians, whether their median lies between the bars, and that of the best.

    Each pair holds the repeats of one round. On a machine that others use, the best of all repeats is what the two
    could do; the medians also tell whom the scheduler favoured.
    """
    ratios = [statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs]
    middle = statistics.median(ratios)
    best = [max(max(side) for side in sides) for sides in zip(*pairs, strict=True)]
    return {
        "what": name,
        "best_bytes_per_s": {"probe": best[0], "yardstick": best[1]},
        "ratio_of_the_best": round(best[0] / best[1], 3),
        "ratios": [round(each, 3) for each in ratios],
        "ratio": round(middle, 3),
        "bar": [low, high],
        "met": low <= middle <= high,
    }


def memory(rounds: int, folder: str) -> list[dict[str, Any]]:
    """Read against the C loop with all processors, copy against mbw with one."""
    threads = len(processors())
    with tempfile.TemporaryDirectory() as made:
        program = os.path.join(made, "readloop")
        source = str(Path(__file__).parent / "readloop.c")
        subprocess.run(["gcc", "-O3", "-march=native", "-pthread", source, "-o", program], check=True)
        reads: list[Pair] = []
        copies: list[Pair] = []
        for _ in range(rounds):
            loop = [float(line) for line in output([program, str(threads), str(SIZE)]).split()]
            rows = probe("hbm", device="cpu", size=SIZE)
            mbw = output(["mbw", "-q", "-n", "7", "-t0", str(SIZE // MIB)]).splitlines()
            copied = [float(line.split()[-2]) * MIB for line in mbw if line.strip()[:1].isdigit()]
            reads.append((repeats(rows, "read", threads=threads), loop))
            copies.append((repeats(rows, "copy", threads=1), copied))
    return [
        compared(f"memory read, {threads} threads, against a C loop", reads, 0.9, 1.1),
        compared("memory copy, 1 thread, against mbw", copies, 0.85, 1.15),
    ]


def disk(rounds: int, folder: str) -> list[dict[str, Any]]:
    """1 MiB random reads at depth 16 against fio, with a file as large, really written, past the page cache."""
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory(dir=folder) as made:
        argv = ["fio", "--name=kv", f"--directory={made}", f"--size={SIZE}", "--bs=1M", "--direct=1"]
        argv += [
            "--ioengine=libaio",
            "--iodepth=16",
            "--fallocate=none",
            "--refill_buffers",
            "--output-format=json",
        ]
        output([*argv, "--rw=write", "--end_fsync=1"])
        for _ in range(rounds):
            done = json.loads(output([*argv, "--rw=randread", "--loops=3"]))
            theirs = float(done["jobs"][0]["read"]["bw_bytes"])
            rows = probe("nvme", path=made, size=SIZE, depths=[16])
            pairs.append((repeats(rows, "random read", queue_depth=16, block_bytes=MIB), [theirs]))
    return [compared("disk, 1 MiB random read, depth 16, against fio", pairs, 0.85, 1.15)]


def network(rounds: int, folder: str) -> list[dict[str, Any]]:
    """In a network namespace of our own: loopback behind a token bucket, then without."""
    argv = ["unshare", "-n", sys.executable, "-m", "benchmarks.probes", "inside", "--rounds", str(rounds)]
    found: list[dict[str, Any]] = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    return found


def inside(rounds: int, folder: str) -> list[dict[str, Any]]:
    """Be in the namespace: limit, compare, lift the limit, compare."""
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "up"], check=True)
    found = []
    for mbit in RATES_MBIT:
        limit = ["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", f"{mbit}mbit"]
        subprocess.run([*limit, "burst", BURST, "latency", "50ms"], check=True)
        pairs = streams(rounds)
        line = mbit * 1e6 / 8
        found.append(compared(f"network at {mbit} Mbit/s, against iperf3", pairs, 0.9, 1.1))
        found.append(
            compared(
                f"network at {mbit} Mbit/s, payload over the set rate",
                [(o, [line]) for o, _ in pairs],
                0.94 * 0.985,
                0.95 * 1.015,
            )
        )
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "mtu", "65536"], check=True)
    found.append(compared("loopback without a limit, against iperf3", streams(rounds), 0.9, 1.1))
    return found


@contextmanager
def peers() -> Iterator[int]:
    """Start iperf3's server and the probe's peer on the first processor, ourselves on the last; return our port."""
    first, last = processors()[0], processors()[-1]
    pinned = [*NICE, "taskset", "-c", str(first)]
    code = "from kvdoctor.probes import network_peer; network_peer.serve_once()"
    theirs = subprocess.Popen([*pinned, "iperf3", "-s", "-B", "127.0.0.1"], stdout=subprocess.DEVNULL)
    ours = subprocess.Popen(
        [*pinned, sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {last})
    try:
        assert ours.stdout is not None
        yield int(ours.stdout.readline())
    finally:
        os.sched_setaffinity(0, before)
        for process in (theirs, ours):
            process.terminate()
            process.wait()


def streams(rounds: int) -> list[Pair]:
    """Return (probe, iperf3) rates of one stream of 1 MiB messages to the peer, in bytes/s.

    Each end keeps a processor of its own: where the scheduler puts both on one, the rate halves, whoever's it is.
    They take turns in going first.
    """
    argv = ["iperf3", "-c", "127.0.0.1", "-t", "2", "-O", "1", "-l", "1M", "-J"]
    pairs: list[Pair] = []
    for number in range(rounds):
        with peers() as port:
            theirs = json.loads(output(argv)) if number % 2 else {}
            options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "messages": [MIB], "streams": 1}
            rows = probe("network", **options, seconds=1.0, others=False)
            theirs = theirs or json.loads(output(argv))
        ours = repeats(rows, "transfer", direction="to peer", streams=1)
        pairs.append((ours, [theirs["end"]["sum_received"]["bits_per_second"] / 8]))
    return pairs


PARTS: dict[str, Callable[[int, str], list[dict[str, Any]]]] = {
    "memory": memory,
    "disk": disk,
    "network": network,
    "inside": inside,
}


def main() -> None:
    """Compare what is asked for and print one JSON list; exit 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    parts = options.parts or [part for part in PARTS if part != "inside"]
    found = [each for part in parts for each in PARTS[part](options.rounds, options.folder)]
    print(json.dumps(found, indent=1))
    if parts != ["inside"] and not all(each["met"] for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
