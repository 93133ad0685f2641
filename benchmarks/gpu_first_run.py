"""What must be confirmed on a first run on a CUDA card, in one script of at most six minutes.

python -m benchmarks.gpu_first_run --out results [--steps 1,2,6]

Each step runs in a process of its own with a time limit and leaves what it saw in a file of its own, also when it
fails; none stops the others. `summary.json` has card, driver and date, and for each step what was expected, what was
seen and whether it agrees, and is written anew after each. Exit 2 where there is no card. Not run on a card yet.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.gpu_steps import STEPS
from kvdoctor.probes import cuda

LIMIT_S = 360.0
NO_CARD = 2


def identity() -> dict[str, Any]:
    """Return card, driver and date; the reason where NVML does not answer."""
    found: dict[str, Any] = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        found |= {"card": pynvml.nvmlDeviceGetName(handle), "driver": pynvml.nvmlSystemGetDriverVersion()}
    except ImportError:
        found["missing"] = "nvidia-ml-py is not installed"
    except pynvml.NVMLError as error:
        found["missing"] = str(error)
    return found


def run_step(number: int, out: Path, limit_s: float) -> dict[str, Any]:
    """Run one step in a process group of its own, which ends with it; return its line of the summary."""
    step, begin = STEPS[number], time.monotonic()
    argv = [sys.executable, "-m", "benchmarks.gpu_first_run", "--step", str(number), "--out", str(out)]
    line: dict[str, Any] = {"step": number, "what": step.what, "expected": step.expected}
    log, result = out / f"step-{number:02}.log", out / f"step-{number:02}.json"
    result.unlink(missing_ok=True)
    with log.open("wb") as said:
        process = subprocess.Popen(argv, stdout=said, stderr=said, start_new_session=True)
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
    line["seconds"] = round(time.monotonic() - begin, 1)
    found = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    if "verdict" in found:
        return {**line, **found["verdict"]}
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    why = f"no end within {limit_s:.0f} s" if code is None else (last or [f"exit code {code}"])[0]
    return {**line, "failed": why}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a step with everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def be_step(number: int, out: Path) -> None:
    """Be a step: do it, and write everything that was seen before it is judged."""
    file = out / f"step-{number:02}.json"
    seen = STEPS[number].run()
    file.write_text(json.dumps({"seen": seen}, indent=1, default=str), encoding="utf-8")
    verdict = STEPS[number].judge(seen)
    file.write_text(json.dumps({"seen": seen, "verdict": verdict}, indent=1, default=str), encoding="utf-8")


def main() -> None:
    """Run all steps within the time, write the summary, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("gpu-first-run"))
    parser.add_argument("--steps", default="", help="numbers behind commas [all]")
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.step:
        be_step(options.step, options.out)
        return
    wanted = [int(text) for text in options.steps.split(",") if text] or list(STEPS)
    summary: dict[str, Any] = {**identity(), "steps": []}
    if missing := cuda.missing():
        summary["missing"] = f"{missing.reason}: {missing.cure}"
        (options.out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
        print(f"nothing was run: {summary['missing']}")
        sys.exit(NO_CARD)
    deadline = time.monotonic() + LIMIT_S
    for number in wanted:
        left = deadline - time.monotonic()
        if left < 1:
            summary["steps"].append({"step": number, "failed": "the six minutes were over"})
        else:
            summary["steps"].append(run_step(number, options.out, min(STEPS[number].limit_s, left)))
        (options.out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    print(json.dumps(summary, indent=1))
    if not all(step.get("agrees") for step in summary["steps"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
