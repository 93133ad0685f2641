"""Everything that the host tells of one family, as places to read; and our own manners while we read."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass

from kvdoctor.collectors import files
from kvdoctor.collectors.cgroup import Cgroups, Limits, levels, limits
from kvdoctor.collectors.disk import Disks
from kvdoctor.collectors.lines import HostPage
from kvdoctor.collectors.network import Network
from kvdoctor.collectors.nvml import Nvml
from kvdoctor.collectors.pressure import Machine
from kvdoctor.collectors.process import Processes
from kvdoctor.collectors.stacks import Stacks
from kvdoctor.errors import Refused
from kvdoctor.model import Gap
from kvdoctor.record import Place
from kvdoctor.target.family import Family

NICENESS = 10
OOM_SCORE = 1000
"""We go first when memory runs out."""
HEADROOM_BYTES = 256 * 2**20
"""Free memory in a cgroup that we share with the engine, below which we start no py-spy (it takes 20 to 60 MB)."""
HEADROOM_CPUS = 1.0
"""A CPU quota that we share with the engine, below which we start none either."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A place that is not read, by our own decision, and says why."""

    name: str
    refusal: Refused
    kind: str = "host"
    role: str | None = None

    def read(self) -> HostPage:
        """Raise the reason."""
        raise self.refusal

    def documents(self) -> dict[str, str]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Hold nothing open."""


def host_places(
    family: Family,
    *,
    url: str | None = None,
    stacks: bool = True,
    proc: str = "/proc",
    sys: str = "/sys",
) -> tuple[Place, ...]:
    """Return one place a collector. `url` is the name of the endpoint that belongs to the family.

    Making them touches nothing but our own cgroup's limits. Each fails alone.
    """
    told: dict[str, object] = {"root": family.root, "engine": family.engine, "url": url}
    if begun := started(family, proc=proc):
        told["started"] = begun
    about = {"family": json.dumps(told)}
    pids = [member.pid for member in family.members]
    places: list[Place] = [
        Processes(family.members, proc=proc, sys=sys, about=about),
        Cgroups(family.cgroups, about=about),
        Machine(family.root, proc=proc, tick=os.sysconf("SC_CLK_TCK"), about=about),
        Disks(family.mounts, proc=proc, sys=sys, about=about),
        Network(family.root, proc=proc, sys=sys, about=about),
        Nvml(family.cards, pids, sys=sys, about=about),
    ]
    if stacks:
        refusal = headroom(family, proc=proc)
        places.append(Withheld("stacks", refusal) if refusal else Stacks(family.members, about=about))
    return tuple(places)


def started(family: Family, *, proc: str = "/proc") -> tuple[float, ...]:
    """Return when each process of a family started, in unix seconds by our clock, the root first; empty if untold."""
    words = (files.optional(f"{proc}/uptime") or "").split()
    ticks = [member.start_ticks for member in family.members if member.start_ticks]
    if not words or not family.members or not family.members[0].start_ticks:
        return ()
    boot, hertz = time.time() - float(words[0]), os.sysconf("SC_CLK_TCK")
    return tuple(round(boot + each / hertz, 2) for each in ticks)


def headroom(family: Family, *, proc: str = "/proc") -> Refused | None:
    """Say why py-spy should not be started here: we share the engine's cgroup, and it has little left."""
    own = (files.optional(f"{proc}/self/cgroup") or "").splitlines()
    paths = {line.split(":", 2)[2] for line in own if line.count(":") >= 2}
    for cgroup in family.cgroups:
        if cgroup.path not in paths:
            continue
        for found in map(limits, levels(cgroup.folder)):
            refusal = _tight(found)
            if refusal is not None:
                return refusal
    return None


def _tight(found: Limits) -> Refused | None:
    cure = "run kvdoctor outside the engine's container: on its host, or in a debug container of its own"
    if found.memory is not None and found.memory_used is not None:
        left = found.memory - found.memory_used + found.reclaimable
        if left < HEADROOM_BYTES:
            return Refused(
                f"the engine's memory limit, which we share, has {left / 2**20:.0f} MiB left", cure
            )
    if found.cpus is not None and found.cpus < HEADROOM_CPUS:
        return Refused(f"the engine's CPU quota, which we share, is {found.cpus:.2g} CPUs", cure)
    return None


def settle(*, proc: str = "/proc") -> tuple[Gap, ...]:
    """Make ourselves the least important process: niceness 10, first to go when memory runs out."""
    gaps = []
    os.nice(max(0, NICENESS - os.nice(0)))
    try:
        with open(f"{proc}/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(OOM_SCORE))
    except OSError as error:
        reason = f"our own oom_score_adj cannot be set to {OOM_SCORE}: {error.strerror}"
        gaps.append(Gap("kvdoctor", reason, "nothing to do, unless memory is short"))
    return tuple(gaps)
