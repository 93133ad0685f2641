"""What we may do here and what not, each with the line that grants it. Only looks; changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum

from kvdoctor.target.family import Family
from kvdoctor.target.gpu import Devices
from kvdoctor.target.namespaces import in_container
from kvdoctor.target.process import Ids, Proc
from kvdoctor.target.program import as_root, program

CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYSLOG, CAP_PERFMON = 19, 21, 34, 38
"""Bits of the kernel's include/uapi/linux/capability.h."""
PERF_OPEN = 1
"""Highest kernel.perf_event_paranoid at which an ordinary user may count a process's events in full."""
MONITORS = ("nv-hostengine", "dcgm-exporter")
IN_CONTAINER = (
    "start this container with --cap-add SYS_PTRACE --pid=host (Kubernetes: capabilities.add, hostPID)"
)


class Held(str, Enum):
    """Whether a permission is there."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing that a diagnosis reads, whether we may, and what lets us."""

    name: str
    held: Held
    why: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides about permissions: us, the kernel's settings, and the process in question."""

    proc: Proc
    us: Ids
    family: Family | None = None

    def can(self, capability: int) -> bool:
        """Say whether we have a capability."""
        return bool(self.us.capabilities >> capability & 1)

    @property
    def is_inside(self) -> bool:
        """Say whether we are in a container."""
        return in_container(self.proc)

    def again(self) -> str:
        """Return the line that runs us as root."""
        pid = f" --pid {self.family.root}" if self.family else ""
        return as_root(f"{program()} diagnose{pid}")


def situation(proc: Proc, family: Family | None = None) -> Situation:
    """Take stock of ourselves."""
    us = proc.ids("self") or Ids(os.geteuid(), os.getegid(), frozenset(), (os.getpid(),), 0)
    return Situation(proc, us, family)


def of_process(at: Situation) -> tuple[Permission, ...]:
    """Return what may be read of the process in question."""
    return files(at), stacks(at), cgroup(at)


def of_host(at: Situation, seen: Devices, names: tuple[str, ...] = ()) -> tuple[Permission, ...]:
    """Return what may be read of the machine; `names` are the programs that run here."""
    own = () if at.family is not None else (stacks_of_own(at),)
    return (*own, perf(at), kernel_log(at), nvml(at, seen), profiling(at), monitor(names))


def files(at: Situation) -> Permission:
    """Open files, environment, I/O counters, root: the kernel's ptrace read check decides."""
    name, family = "process files", at.family
    if family is None:
        return Permission(name, Held.UNKNOWN, "no process is in question")
    shut = [m for m in family.members if not at.proc.may_look(m.pid)]
    if not shut:
        return Permission(name, Held.YES, f"of all its processes: {len(family.members)}")
    why = f"{len(shut)} of {len(family.members)} processes are closed to user {at.us.uid}"
    return Permission(name, Held.NO, why, _closed(at, shut[0].uid))


def _closed(at: Situation, uid: int) -> str:
    if at.us.uid == 0 or uid == at.us.uid:
        return IN_CONTAINER if at.is_inside else f"run it with CAP_SYS_PTRACE: {at.again()}"
    return at.again()


def stacks(at: Situation) -> Permission:
    """Reading another process's memory, as py-spy does: the ptrace attach check and Yama decide."""
    name, family = "stacks (py-spy)", at.family
    scope = yama(at.proc)
    if scope == 3:
        why = "kernel.yama.ptrace_scope is 3: nobody may, and it stays so until a reboot"
        return Permission(name, Held.NO, why, "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot")
    if family is None or at.can(CAP_SYS_PTRACE):
        shut = [m for m in family.members if not at.proc.may_look(m.pid)] if family else []
        if not shut:
            return Permission(name, Held.YES, "CAP_SYS_PTRACE")
        return Permission(
            name, Held.NO, "CAP_SYS_PTRACE does not reach into its user namespace", IN_CONTAINER
        )
    if any(m.uid != at.us.uid or not at.proc.may_look(m.pid) for m in family.members):
        others = sorted({m.uid for m in family.members} - {at.us.uid})
        why = f"it runs as user {others[0]}" if others else "it is closed to its own user"
        return Permission(name, Held.NO, why, _closed(at, others[0] if others else at.us.uid))
    return _yama(at, name, scope)


def _yama(at: Situation, name: str, scope: int | None) -> Permission:
    if not scope:
        return Permission(name, Held.YES, "same user, and Yama lets it")
    if scope == 1:
        why = "kernel.yama.ptrace_scope is 1: only a parent may look into a process"
        cure = "start this container with --cap-add SYS_PTRACE" if at.us.uid == 0 else at.again()
        return Permission(name, Held.NO, why, f"{cure} (or: sudo sysctl kernel.yama.ptrace_scope=0)")
    why = f"kernel.yama.ptrace_scope is {scope}: only CAP_SYS_PTRACE may look into a process"
    cure = "start this container with --cap-add SYS_PTRACE" if at.us.uid == 0 else at.again()
    return Permission(name, Held.NO, why, cure)


def stacks_of_own(at: Situation) -> Permission:
    """The same where no process is in question: could we look into a process of our own user?"""
    name, scope = "stacks (py-spy)", yama(at.proc)
    if scope == 3:
        return stacks(at)
    if at.can(CAP_SYS_PTRACE):
        return Permission(name, Held.YES, "CAP_SYS_PTRACE")
    return _yama(at, name, scope)


def yama(proc: Proc) -> int | None:
    """Return kernel.yama.ptrace_scope, None where the kernel has no Yama: then it restricts nothing."""
    text = proc.setting("kernel/yama/ptrace_scope")
    return int(text) if text and text.isdigit() else None


def cgroup(at: Situation) -> Permission:
    """The cgroup's own accounts: CPU throttling, memory limit, pressure."""
    name = "cgroup accounts"
    if at.family is None:
        return Permission(name, Held.UNKNOWN, "no process is in question")
    shown = {kind: group.folder for group in at.family.cgroups for kind in group.controllers or ("",)}
    folder = next((shown[kind] for kind in ("", "memory", "cpu") if shown.get(kind)), "")
    if folder:
        return Permission(name, Held.YES, folder)
    cure = (
        "start this container with --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:ro"
        if at.is_inside
        else "sudo mount -t cgroup2 none /sys/fs/cgroup"
    )
    return Permission(name, Held.NO, "its cgroup is not visible under /sys/fs/cgroup", cure)


def perf(at: Situation) -> Permission:
    """Hardware counters of the CPU."""
    name, text = "perf events", at.proc.setting("kernel/perf_event_paranoid")
    if at.can(CAP_PERFMON) or at.can(CAP_SYS_ADMIN):
        return Permission(name, Held.YES, "CAP_PERFMON")
    try:
        level = int(text or "")
    except ValueError:
        return Permission(name, Held.UNKNOWN, "the kernel says nothing of kernel.perf_event_paranoid")
    if level <= PERF_OPEN:
        return Permission(name, Held.YES, f"kernel.perf_event_paranoid is {level}")
    why = f"kernel.perf_event_paranoid is {level}"
    return Permission(name, Held.NO, why, f"sudo sysctl kernel.perf_event_paranoid={PERF_OPEN}")


def kernel_log(at: Situation) -> Permission:
    """The kernel's log, where Xid errors of GPUs stand."""
    name = "kernel log (Xid)"
    if at.can(CAP_SYSLOG) or at.proc.setting("kernel/dmesg_restrict") == "0":
        return Permission(name, Held.YES, "CAP_SYSLOG" if at.can(CAP_SYSLOG) else "dmesg is open to all")
    return Permission(name, Held.NO, "kernel.dmesg_restrict is on", "sudo sysctl kernel.dmesg_restrict=0")


def nvml(at: Situation, seen: Devices) -> Permission:
    """The driver's management library."""
    name = "NVML"
    if not seen.is_readable:
        gap = seen.gaps[0] if seen.gaps else None
        why = gap.reason if gap else "it was not asked"
        return Permission(name, Held.NO if gap else Held.UNKNOWN, why, gap.cure if gap else "")
    if at.is_inside:
        why = f"{len(seen.devices)} GPUs; processes outside this container are not listed"
        return Permission(name, Held.YES, why, "docker run --pid=host (Kubernetes: hostPID: true)")
    return Permission(name, Held.YES, f"{len(seen.devices)} GPUs")


def profiling(at: Situation) -> Permission:
    """The GPU's profiling counters before Hopper; GPM on Hopper and later does not ask for this."""
    name, text = "GPU profiling", at.proc.text("driver/nvidia/params")
    lines = dict(line.split(":", 1) for line in (text or "").splitlines() if ":" in line)
    value = lines.get("RmProfilingAdminOnly", "").strip()
    if not value:
        return Permission(name, Held.UNKNOWN, "no NVIDIA driver says so in /proc/driver/nvidia/params")
    if value == "0" or at.can(CAP_SYS_ADMIN):
        return Permission(name, Held.YES, "open to all" if value == "0" else "CAP_SYS_ADMIN")
    cure = (
        "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | "
        "sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot"
    )
    return Permission(name, Held.NO, "the driver keeps it to administrators", cure)


def monitor(names: tuple[str, ...]) -> Permission:
    """DCGM. Whether it runs is read from the process list; it is not spoken to."""
    running = [name for name in MONITORS if name in names]
    if running:
        return Permission("DCGM", Held.YES, f"{running[0]} runs here", "")
    cure = "sudo systemctl start nvidia-dcgm (it needs the datacenter-gpu-manager package)"
    return Permission("DCGM", Held.NO, "neither nv-hostengine nor dcgm-exporter runs here", cure)
