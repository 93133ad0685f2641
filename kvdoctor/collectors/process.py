"""The processes of a family: CPU and run-queue wait by thread name, switches, faults, memory, bytes of I/O."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvdoctor.collectors import files
from kvdoctor.collectors.lines import HostPage, Label, Lines
from kvdoctor.collectors.numa import nodes_of
from kvdoctor.errors import Refused
from kvdoctor.secrets import clean
from kvdoctor.target.family import Member

HOT_NS = 1_000_000
"""Nanoseconds on or waiting for a CPU since the last reading, from which a thread's switches are read too."""
MAX_THREADS = 8192
"""Threads that are read at one reading; a guard for families of hundreds of processes."""
TICK = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
MAIN = "main"
"""The name under which a process's first thread goes: its own is the process title."""

_DIGITS = re.compile(r"\d+")
_SWITCHES = re.compile(r"^(voluntary|nonvoluntary)_ctxt_switches:\s*(\d+)", re.MULTILINE)
_IO_CURE = f"{files.ROOT_CURE} (reading /proc/PID/io needs CAP_SYS_PTRACE)"


@dataclass(slots=True)
class _Seen:
    """What a thread's counters stood at when they were last read."""

    run: int = 0
    wait: int = 0
    voluntary: int = 0
    involuntary: int = 0
    name: str = ""


@dataclass(slots=True)
class _Group:
    """Threads of one name in one process; never falls, also when a thread ends."""

    run: int = 0
    wait: int = 0
    voluntary: int = 0
    involuntary: int = 0
    states: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Process:
    member: Member
    labels: tuple[Label, ...]
    threads: dict[int, _Seen] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=dict)


class Processes:
    """All processes of a family, read together. Making it touches nothing."""

    name, kind, role = "processes", "host", None

    def __init__(
        self,
        members: Sequence[Member],
        *,
        proc: str = "/proc",
        sys: str = "/sys",
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._proc, self._sys, self._schedstat, self._about = proc, sys, True, dict(about or {})
        self._processes = [_Process(m, (("pid", str(m.pid)), ("role", m.role))) for m in members]
        self._left = 0

    def read(self) -> HostPage:
        """Return what the members' counters say now; Refused when all of them have ended."""
        lines = Lines()
        self._left = MAX_THREADS
        alive = 0
        for process in self._processes:
            try:
                self._process(lines, process)
                alive += 1
            except (FileNotFoundError, ProcessLookupError):
                reason = f"process {process.member.pid} ({process.member.role}) has ended"
                lines.gap("processes", reason, "kvdoctor targets shows who runs now")
            except PermissionError:
                lines.gap("processes", f"/proc/{process.member.pid} may not be read", files.ROOT_CURE)
        if not alive:
            raise Refused("the processes have ended, or cannot be seen from here", files.ROOT_CURE)
        if not self._schedstat:
            reason = "this kernel does not tell how long threads wait for a CPU"
            lines.gap("run-queue wait", reason, "a kernel with CONFIG_SCHED_INFO")
        if self._left <= 0:
            lines.gap("processes", f"only the first {MAX_THREADS} threads are read")
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open."""

    def _process(self, lines: Lines, process: _Process) -> None:
        pid, labels = process.member.pid, process.labels
        stat = files.read(f"{self._proc}/{pid}/stat").rpartition(")")[2].split()
        if process.member.start_ticks and int(stat[19]) != process.member.start_ticks:
            raise ProcessLookupError(f"{pid} is another process now")
        status = files.read(f"{self._proc}/{pid}/status")
        lines.add("host_process_major_faults_total", float(stat[9]), *labels)
        lines.add("host_process_threads", float(stat[17]), *labels)
        lines.add("host_process_resident_bytes", float(stat[21]) * PAGE_SIZE, *labels)
        lines.add("host_process_swap_bytes", _kilobytes(status, "VmSwap"), *labels)
        cpus = files.cpu_list(_field(status, "Cpus_allowed_list"))
        lines.add("host_process_cpus", float(len(cpus)) if cpus else None, *labels)
        for node in nodes_of(cpus, self._sys):
            lines.add("host_process_node", 1.0, *labels, ("node", node))
        self._io(lines, process)
        self._threads(process)
        for name, group in process.groups.items():
            _write_group(lines, group, (*labels, ("thread", name)))

    def _io(self, lines: Lines, process: _Process) -> None:
        """Bytes from and to devices, and bytes asked for, page cache included."""
        try:
            text = files.read(f"{self._proc}/{process.member.pid}/io")
        except PermissionError:
            lines.gap("process I/O", "the bytes that the engine reads and writes may not be read", _IO_CURE)
            return
        except FileNotFoundError:
            lines.gap(
                "process I/O", "this kernel does not count I/O", "a kernel with CONFIG_TASK_IO_ACCOUNTING"
            )
            return
        counts = files.pairs(text.replace(":", ""))
        for key, name in (("read_bytes", "read"), ("write_bytes", "write"), ("rchar", "asked")):
            lines.add(f"host_process_io_{name}_bytes_total", counts.get(key), *process.labels)

    def _threads(self, process: _Process) -> None:
        folder = f"{self._proc}/{process.member.pid}/task"
        seen: dict[int, _Seen] = {}
        for entry in os.listdir(folder):
            if self._left <= 0:
                break
            self._left -= 1
            tid = int(entry)
            try:
                seen[tid] = self._thread(f"{folder}/{entry}", tid, process)
            except (FileNotFoundError, ProcessLookupError):
                continue
        process.threads = seen

    def _thread(self, folder: str, tid: int, process: _Process) -> _Seen:
        """Bring one thread's group up to date and return where its counters stand."""
        before = process.threads.get(tid)
        now = _Seen(*self._times(folder))
        last = before or _Seen()
        main = tid == process.member.pid
        hot = before is None or now.run - last.run + now.wait - last.wait >= HOT_NS
        if hot or main:
            status = files.read(f"{folder}/status")
            switches = dict(_SWITCHES.findall(status))
            now.voluntary = int(switches.get("voluntary", 0))
            now.involuntary = int(switches.get("nonvoluntary", 0))
            now.name = MAIN if main else _DIGITS.sub("N", clean(_field(status, "Name"))) or "?"
        else:
            now.voluntary, now.involuntary, now.name = last.voluntary, last.involuntary, last.name
        group = process.groups.setdefault(now.name, _Group())
        group.run += max(0, now.run - last.run)
        group.wait += max(0, now.wait - last.wait)
        group.voluntary += max(0, now.voluntary - last.voluntary)
        group.involuntary += max(0, now.involuntary - last.involuntary)
        if (hot or main) and before is not None:
            state = _field(status, "State")[:1]
            group.states[state] = group.states.get(state, 0) + 1
        return now

    def _times(self, folder: str) -> tuple[int, int]:
        """Nanoseconds on a CPU and waiting for one; where the kernel has no schedstat, clock ticks and 0."""
        if self._schedstat:
            try:
                run, wait, _ = files.read(f"{folder}/schedstat").split()
                return int(run), int(wait)
            except (FileNotFoundError, ValueError):
                self._schedstat = not os.path.exists(f"{folder}/stat")
        stat = files.read(f"{folder}/stat").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) * 1_000_000_000 // TICK, 0


def _write_group(lines: Lines, group: _Group, labels: tuple[Label, ...]) -> None:
    lines.add("host_thread_cpu_seconds_total", group.run / 1e9, *labels)
    lines.add("host_thread_wait_seconds_total", group.wait / 1e9, *labels)
    lines.add("host_thread_switches_total", float(group.voluntary), *labels, ("kind", "voluntary"))
    lines.add("host_thread_switches_total", float(group.involuntary), *labels, ("kind", "involuntary"))
    for state, count in group.states.items():
        lines.add("host_thread_state_samples_total", float(count), *labels, ("state", state))


def _field(status: str, key: str) -> str:
    """Return the value of a line `Key:\tvalue`, empty when there is none."""
    start = status.find(f"{key}:\t")
    return status[start + len(key) + 2 :].partition("\n")[0].strip() if start >= 0 else ""


def _kilobytes(status: str, key: str) -> float | None:
    words = _field(status, key).split()
    return float(words[0]) * 1024 if words and words[0].isdigit() else None
