"""A process list that exists in memory alone: one engine with a command line, an environment and a child."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.fuzz_report import plain
from kvdoctor.commands.listing import short_line, target_lines
from kvdoctor.target.describe import Host, describe
from kvdoctor.target.gpu import Devices
from kvdoctor.target.kin import families
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc, parse_stat
from kvdoctor.target.scan import scan

PARENT, CHILD = 100, 101
_STATUS = "Name:\tx\nPid:\t{pid}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0\nNSpid:\t{pid}\nCapEff:\t0\n"
_PATIENCE = Patience()
"""One for all inputs: it keeps a thread."""


class _Memory(Proc):
    """Two processes; nothing of them lies on a disk."""

    def __init__(self, cmdline: bytes, environ: bytes, title: bytes, comm: bytes) -> None:
        super().__init__("/nonexistent")
        fields = b" 0 0 0 0 0 0 0 0 0 100 0 0 0 0 0 1 0 500000 0 0\n"
        self._files = {
            (PARENT, "cmdline"): cmdline,
            (PARENT, "environ"): environ,
            (CHILD, "cmdline"): title,
            (PARENT, "stat"): b"%d (%s) S 1" % (PARENT, comm) + fields,
            (CHILD, "stat"): b"%d (%s) S %d" % (CHILD, comm, PARENT) + fields,
        }

    def pids(self) -> tuple[int, ...]:
        return (PARENT, CHILD)

    def read(self, pid: int | str, name: str) -> bytes | None:
        if name == "status":
            return _STATUS.format(pid=pid).encode()
        return self._files.get((int(pid), name)) if pid != "self" else None

    def setting(self, name: str) -> str | None:
        return None

    def text(self, name: str) -> str | None:
        return "10000.00 20000.00\n" if name == "uptime" else None

    def link(self, pid: int | str, name: str) -> str | None:
        return None

    def may_look(self, pid: int) -> bool:
        return True

    def open_files(self, pid: int) -> Iterator[str]:
        return iter(())

    def thread_names(self, pid: int) -> Iterator[str]:
        return iter(())


def command_line(data: bytes) -> None:
    """Describe an engine whose command line, environment, child's title and name the bytes are, parted by \\1."""
    cmdline, environ, title, comm = (*data.split(b"\1"), b"", b"", b"")[:4]
    parse_stat(data)
    proc = _Memory(cmdline, environ, title, comm[:15])
    host = Host(proc, _PATIENCE, Devices(), 0)
    for kin in families(scan(proc, _PATIENCE, own_pid=1)):
        target = describe(host, kin)
        plain("\n".join((short_line(target), *target_lines(target))), "listing")
        plain("".join(f"{value}\n" for name, value in target.facts if name != "model_config"), "facts")
