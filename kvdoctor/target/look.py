"""One look at the host: its engines, its loops, and what each of them is."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kvdoctor.model import Gap
from kvdoctor.target.describe import Host, Target, describe
from kvdoctor.target.fingerprint import STORES
from kvdoctor.target.gpu import devices
from kvdoctor.target.kin import Kin, alone, families, family_at
from kvdoctor.target.loops import Loop, loops
from kvdoctor.target.namespaces import in_container
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import Scan, scan
from kvdoctor.target.sign import NOT_SERVING


@dataclass(frozen=True, slots=True)
class Look:
    """The process list and the cards at one moment."""

    host: Host
    scan: Scan

    def engines(self) -> tuple[Kin, ...]:
        """Return the families of known engines, KV stores among them."""
        return families(self.scan)

    def loops(self) -> tuple[Loop, ...]:
        """Return processes that compute without being a known engine; takes a quarter of a second."""
        above = {process.pid for process in self.scan.ancestors(os.getppid())} | {os.getppid()}
        taken = above | {process.pid for kin in self.engines() for process, _ in kin.members}
        return loops(self.host.proc, self.scan, self.host.devices, self.host.patience, taken=taken)

    def all(self) -> tuple[Target, ...]:
        """Describe everything that was found: engines, then what shows that it serves, then the rest."""
        known = tuple(describe(self.host, kin) for kin in self.engines())
        others = sorted(self.loops(), key=lambda found: (not found.serving, not found.is_sure, found.pid))
        return (*known, *(self.loop(found) for found in others))

    def loop(self, found: Loop) -> Target:
        """Describe a process that is no known engine."""
        kin = alone(self.scan, found.pid, "torch")
        sign = f"{found.sign}; {found.serving or NOT_SERVING}"
        return describe(self.host, kin, sign=sign, is_sure=found.is_sure, is_serving=bool(found.serving))

    def at(self, pid: int) -> Target | None:
        """Describe the family that a process belongs to; None when there is no such process."""
        kin = family_at(self.scan, pid)
        return describe(self.host, kin) if kin is not None else None

    @property
    def is_inside(self) -> bool:
        """Say whether this is a container's own list of processes."""
        return in_container(self.host.proc)

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the names of all processes."""
        return tuple(process.stat.comm for process in self.scan.processes.values())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Return what the look itself could not see."""
        return (*self.scan.gaps, *self.host.devices.gaps)


def look(proc: Proc | None = None) -> Look:
    """Read the process list and ask NVML."""
    proc, patience = proc or Proc(), Patience()
    ids = proc.ids("self")
    host = Host(proc, patience, devices(patience), ids.uid if ids is not None else os.geteuid())
    return Look(host, scan(proc, patience, own_pid=os.getpid()))


def serves(target: Target | Kin) -> bool:
    """Say whether this is an engine that serves requests, and not a KV store beside one."""
    engine = target.family.engine if isinstance(target, Target) else target.engine
    return engine not in STORES
