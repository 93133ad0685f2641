"""A /proc tree in a folder: processes with command lines, parents, sockets, namespaces and files of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

HOME = {"pid": 4026531836, "net": 4026531840, "mnt": 4026531841, "user": 4026531837}
SELF = 1_000_000
TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
V4 = {"127.0.0.1": "0100007F", "0.0.0.0": "00000000", "10.0.0.5": "0500000A"}
V6 = {"::": "0" * 32, "::1": "0" * 24 + "01000000", "::ffff:127.0.0.1": "0000000000000000FFFF00000100007F"}


class FakeProc:
    """Builds the tree; each call adds something."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.root.mkdir()
        (self.root / "uptime").write_text("10000.00 20000.00\n")
        self.setting("kernel/yama/ptrace_scope", "0")
        self.setting("kernel/perf_event_paranoid", "2")
        self.setting("kernel/dmesg_restrict", "1")
        self.process("self", ["kvdoctor"], pid=SELF, uid=1000)

    def setting(self, name: str, text: str) -> None:
        path = self.root / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def process(
        self,
        where: int | str,
        argv: Sequence[str],
        *,
        pid: int | None = None,
        ppid: int = 1,
        comm: str = "python3",
        uid: int = 1000,
        start: int = 500_000,
        cpu: int = 100,
        flags: int = 0,
        state: str = "S",
        caps: int = 0,
        environ: Mapping[str, str] | None = None,
        namespaces: Mapping[str, int] | None = None,
        ns_pids: Sequence[int] = (),
        cgroup: str = "0::/user.slice\n",
        threads: Sequence[str] = (),
        raw: bytes | None = None,
    ) -> Path:
        folder = self.root / str(where)
        number = pid if pid is not None else int(where)
        (folder / "fd").mkdir(parents=True)
        (folder / "ns").mkdir()
        (folder / "net").mkdir()
        self.stat(where, number, ppid=ppid, comm=comm, start=start, cpu=cpu, flags=flags, state=state)
        pids = " ".join(map(str, (number, *ns_pids)))
        (folder / "status").write_text(
            f"Name:\t{comm}\nPid:\t{number}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
            f"Groups:\t{uid} \nNSpid:\t{pids}\nCapEff:\t{caps:016x}\n"
        )
        (folder / "cmdline").write_bytes(
            raw if raw is not None else b"\0".join(w.encode() for w in argv) + b"\0"
        )
        (folder / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in (environ or {}).items()))
        (folder / "cgroup").write_text(cgroup)
        (folder / "mountinfo").write_text("22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n")
        for kind, inode in {**HOME, **(namespaces or {})}.items():
            os.symlink(f"{kind}:[{inode}]", folder / "ns" / kind)
        for tid, name in enumerate(threads or (comm,)):
            (folder / "task" / str(number + tid)).mkdir(parents=True)
            (folder / "task" / str(number + tid) / "comm").write_text(name + "\n")
        return folder

    def stat(
        self,
        where: int | str,
        pid: int,
        *,
        ppid: int = 1,
        comm: str = "python3",
        start: int = 500_000,
        cpu: int = 100,
        flags: int = 0,
        state: str = "S",
    ) -> None:
        fields = [
            state,
            str(ppid),
            *["0"] * 4,
            str(flags),
            *["0"] * 4,
            str(cpu),
            *["0"] * 5,
            "1",
            "0",
            str(start),
        ]
        (self.root / str(where) / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)} 0 0\n")

    def listens(
        self,
        pid: int,
        host: str,
        port: int,
        *,
        inode: int,
        uid: int = 1000,
        held: bool = True,
        also: Sequence[int | str] = (),
    ) -> None:
        """Put a listening socket into the table of a process's namespace (and of `also`), and into its files."""
        table, address = ("tcp", V4[host]) if host in V4 else ("tcp6", V6[host])
        ends = f"{address}:{port:04X} {'0' * len(address)}:0000"
        row = f"   0: {ends} 0A 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 1\n"
        for who in (pid, *also):
            path = self.root / str(who) / "net" / table
            path.write_text((path.read_text() if path.exists() else TCP) + row)
        if held:
            self.opens(pid, f"socket:[{inode}]")

    def opens(self, pid: int, target: str) -> None:
        folder = self.root / str(pid) / "fd"
        os.symlink(target, folder / str(len(os.listdir(folder))))

    def sees(self, pid: int, root: Path, *, cwd: str = "/", exe: str = "") -> None:
        """Give a process a tree of files."""
        folder = self.root / str(pid)
        os.symlink(root, folder / "root")
        os.symlink(cwd, folder / "cwd")
        if exe:
            os.symlink(exe, folder / "exe")

    def closes(self, pid: int) -> None:
        """Make a process another user's: its files, links and environment are gone for us."""
        folder = self.root / str(pid)
        for name in ("fd", "ns"):
            for entry in (folder / name).iterdir():
                entry.unlink()
            (folder / name).rmdir()
        (folder / "environ").unlink()
        for name in ("root", "cwd", "exe"):
            if (folder / name).is_symlink():
                (folder / name).unlink()


def vllm(fake: FakeProc, pid: int, *words: str, ppid: int = 1, **more: object) -> None:
    """Add a vLLM server with its engine core and two workers: pid, pid+1, pid+2, pid+3, and a helper pid+4."""
    argv = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", *words]
    fake.process(pid, argv, ppid=ppid, comm="vllm", **more)  # type: ignore[arg-type]
    core = b"VLLM::EngineCore" + b" " * 40 + b"\0"
    fake.process(pid + 1, [], ppid=pid, comm="VLLM::EngineCor", raw=core, **more)  # type: ignore[arg-type]
    for rank in (0, 1):
        worker = f"VLLM::Worker_TP{rank}".encode() + b"\0\0\0"
        fake.process(pid + 2 + rank, [], ppid=pid + 1, comm="VLLM::Worker_TP", raw=worker, **more)  # type: ignore[arg-type]
    tracker = ["/opt/venv/bin/python3", "-c", "from multiprocessing.resource_tracker import main;main(31)"]
    fake.process(pid + 4, tracker, ppid=pid, **more)  # type: ignore[arg-type]
