"""Blame the host's CPUs when the thread that sets the pace is ready to run, and is not let."""

from __future__ import annotations

from kvdoctor.case import COST, Case
from kvdoctor.hostview import HostView, Quota, Thread
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Verdict
from kvdoctor.stackclass import Doing
from kvdoctor.units import count, percent

WAITS = 0.25
"""Share of wall time that a thread waits for a CPU, from which CPUs are contended: a quarter, as rule 11 asks."""
LOSES = 5.0
"""Times a second that it loses its CPU, below which the wait is put down to the quota where there is one: a
throttled cgroup stands ready without losing anything, but without a quota a wait is always for somebody else."""
PERIODS = 0.1
"""Share of a cgroup's periods that ran out of quota, below which throttling is a passing thing."""
PACE = ("engine_core", "scheduler", "loop", "worker")
"""Roles whose threads every step waits for."""
PACING_CPUS = 0.1
"""CPUs that a thread beside the main one must keep busy to set anybody's pace."""
POLLS = 0.9
"""Share of its stacks in waiting for another process, from which a thread's own wait for a CPU is no delay."""
_SCHEDSTAT = "/proc/PID/task/*/schedstat"
_STATUS = "/proc/PID/task/*/status"


def lost(thread: Thread) -> float:
    """Share of wall time that these threads stood ready and had no CPU; several threads count as one."""
    return thread.wait_share * min(1.0, thread.cpus + thread.waiting)


def tightest(view: HostView) -> Quota | None:
    """Return the quota that costs most, None where no cgroup has one."""
    return max(view.quotas, key=lambda quota: quota.lost, default=None)


def throttled_share(view: HostView) -> float:
    """Share of wall time that a quota takes; 0 where that is small change."""
    quota = tightest(view)
    if quota is None or quota.throttled_periods < PERIODS or quota.lost < COST:
        return 0.0
    return quota.lost


def cpu_throttled(case: Case) -> Finding | None:
    """Say what a cgroup's CPU quota takes; None without a quota."""
    quota = tightest(case.host) if case.host else None
    if case.host is None or quota is None:
        return None
    evidence = (
        Evidence("time that the quota takes, at most", quota.lost, "ratio", COST, "cpu.stat throttled time"),
        Evidence("periods that ran out of quota", quota.throttled_periods, "ratio", PERIODS, "cpu.stat nr_throttled"),
        Evidence("CPU quota", quota.cpus, "CPUs", None, f"cgroup {quota.cgroup}"),
        Evidence("CPUs that the engine used", sum(t.cpus for t in case.host.threads), "CPUs", None, _SCHEDSTAT),
    )  # fmt: skip
    share = throttled_share(case.host)
    if not share:
        why = f"The CPU quota of {_cpus(quota.cpus)} is hardly ever used up."
        return Finding(Bound.HOST, Verdict.RULED_OUT, "cpu_throttled", why, evidence=evidence)
    cost = share * case.currency
    why = (
        f"The cgroup's quota of {_cpus(quota.cpus)} runs out in {percent(quota.throttled_periods)} of its periods; "
        f"the engine then stands still."
    )
    advice = (
        Advice("raise the CPU limit (Kubernetes: resources.limits.cpu), or drop it",
               f"up to {percent(share)} of the time", Basis.UPPER_BOUND, cost),
        Advice("run fewer threads: OMP_NUM_THREADS at most the quota", "fewer threads to stand still",
               Basis.UPPER_BOUND),
    )  # fmt: skip
    return Finding(
        Bound.HOST, Verdict.LIKELY, "cpu_throttled", why, None, cost, cost or None, evidence, (), advice
    )


def _cpus(number: float | None) -> str:
    return f"{number:.3g} CPUs" if number is not None else "an unknown number of CPUs"


def contended(case: Case) -> Finding | None:
    """Say how long the threads that set the pace wait for a CPU; None where the host tells nothing of them."""
    view = case.host
    pace = [t for t in view.threads if _paces(t)] if view else []
    if view is None or not pace:
        return None
    worst = max([t for t in pace if not _polls(view, t)] or pace, key=lost)
    share = max(0.0, lost(worst) - throttled_share(view))
    evidence = (
        Evidence("time that a pacing thread waits for a CPU", share, "ratio", WAITS, _SCHEDSTAT),
        Evidence("times a second that it loses its CPU", worst.involuntary, "1/s", LOSES, _STATUS),
        Evidence("CPUs that it keeps busy", worst.cpus, "CPUs", None, _SCHEDSTAT),
        Evidence("CPUs that the engine may use", view.cpus, "CPUs", None, "Cpus_allowed_list"),
        Evidence("of these, kept busy by others", view.others, "CPUs", None, "/proc/stat"),
        Evidence("of these, taken by the hypervisor", view.steal, "CPUs", None, "/proc/stat steal"),
    )
    throttled = bool(view.quotas) and worst.involuntary < LOSES
    if share < WAITS or throttled:
        why = f"The threads that set the pace wait for a CPU {percent(share)} of the time at most."
        return Finding(Bound.HOST, Verdict.RULED_OUT, "contended", why, evidence=evidence)
    cost = share * case.currency
    who = "others on the same CPUs" if (view.others or 0.0) >= WAITS else "its own other threads"
    why = (
        f"A thread of {worst.role} {worst.pid} is ready to run and waits for a CPU {percent(share)} of the time, "
        f"losing its CPU {count(worst.involuntary)} times a second to {who}."
    )
    return Finding(
        Bound.HOST,
        Verdict.LIKELY,
        "contended",
        why,
        None,
        cost,
        cost or None,
        evidence,
        (),
        (_room(share, cost, who),),
    )


def _paces(thread: Thread) -> bool:
    """Whether steps wait for a thread: the main one of a pacing process, or a busy one. A helper that hardly runs
    may stand ready for long, and nobody waits for it."""
    return thread.role in PACE and (thread.name == "main" or thread.cpus >= PACING_CPUS)


def _polls(view: HostView, thread: Thread) -> bool:
    """Whether a main thread only asks again and again whether the next process is done: it is always ready to run,
    and while that process works nobody waits for it."""
    mixes = [mix for mix in view.mix(thread.role) if (mix.pid, mix.thread) == (thread.pid, thread.name)]
    return any(mix.share(Doing.IPC, Doing.IDLE) >= POLLS for mix in mixes)


def _room(share: float, cost: float, who: str) -> Advice:
    if who.startswith("others"):
        do = "give the engine CPUs of its own (cpuset, taskset, a guaranteed pod), or move the others away"
    else:
        do = "run fewer threads than CPUs (OMP_NUM_THREADS, --api-server-count), or allow it more CPUs"
    return Advice(do, f"up to {percent(share)} of the time", Basis.UPPER_BOUND, cost or None)
