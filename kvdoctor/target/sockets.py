"""Which TCP ports a process listens on: its network namespace's table joined with its own open files."""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from kvdoctor.target.process import Proc

LISTEN = "0A"
"""TCP_LISTEN of the kernel's include/net/tcp_states.h."""
_SOCKET = re.compile(r"^socket:\[(\d+)\]$")


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening TCP socket."""

    host: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    uid: int
    """The user who opened it."""
    inode: int
    """The same number in every namespace: sockets are counted once for the whole kernel."""

    @property
    def connect_to(self) -> str:
        """The host to connect to from the same namespace: the loopback for a wildcard."""
        if self.host.is_unspecified:
            return "127.0.0.1" if self.host.version == 4 else "[::1]"
        mapped = self.host.ipv4_mapped if isinstance(self.host, ipaddress.IPv6Address) else None
        if mapped is not None:
            return str(mapped)
        return str(self.host) if self.host.version == 4 else f"[{self.host}]"


def listeners(proc: Proc, pids: Iterable[int], port: int) -> tuple[Listener, ...]:
    """Return the sockets on which one of these processes listens at a port, IPv4 first."""
    found: dict[int, Listener] = {}
    for pid in pids:
        rows = {row.inode: row for row in _table(proc, pid) if row.port == port and row.inode not in found}
        if rows:
            found |= _held(proc, pid, rows)
    return tuple(sorted(found.values(), key=lambda row: (row.host.version, row.inode)))


def listening(proc: Proc, pid: int) -> tuple[int, ...]:
    """Return the ports at which a process listens, in order; empty too where its open files are closed to us."""
    rows = {row.inode: row for row in _table(proc, pid)}
    return tuple(sorted({row.port for row in _held(proc, pid, rows).values()})) if rows else ()


def user_listens(proc: Proc, pid: int, uid: int, port: int) -> bool:
    """Say whether somebody of this user listens at a port of a process's network namespace.

    That is all that can be seen of another user's process, whose open files are closed to us.
    """
    return any(row.port == port and row.uid == uid for row in _table(proc, pid))


def shares_network(proc: Proc, pid: int) -> bool | None:
    """Say whether a process's network namespace is ours, from tables that anybody may read.

    None when it can't be told: nobody listens in one of them.
    """
    theirs, ours = ({row.inode for row in _table(proc, who)} for who in (pid, "self"))
    if theirs & ours:
        return True
    return False if theirs and ours else None


def _held(proc: Proc, pid: int, rows: dict[int, Listener]) -> dict[int, Listener]:
    """Keep those rows whose socket is among the process's open files."""
    held: dict[int, Listener] = {}
    for target in proc.open_files(pid):
        match = _SOCKET.match(target)
        if match and int(match[1]) in rows:
            held[int(match[1])] = rows[int(match[1])]
            if len(held) == len(rows):
                break
    return held


def _table(proc: Proc, pid: int | str) -> Iterable[Listener]:
    for name in ("net/tcp", "net/tcp6"):
        for line in (proc.read(pid, name) or b"").decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN:
                row = _row(fields[1], fields[7], fields[9])
                if row is not None:
                    yield row


def _row(local: str, uid: str, inode: str) -> Listener | None:
    host, _, port = local.partition(":")
    try:
        return Listener(_host(host), int(port, 16), int(uid), int(inode))
    except ValueError:
        return None


def _host(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address as the kernel writes it: 32-bit words in the byte order of the machine."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))
