"""From the host's sources in a recording to a HostView of one window."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kvdoctor import metrics as m
from kvdoctor.hostcards import cards, doubts
from kvdoctor.hostseries import One, Series, series
from kvdoctor.hostview import Disk, HostView, Interface, Quota, StackMix, Thread
from kvdoctor.model import Gap
from kvdoctor.quantity import Quantity
from kvdoctor.recording import Recording, Source
from kvdoctor.stackclass import Doing, classify

KIND = "host"
MIN_SECONDS = 2.0
"""A stretch of host readings shorter than this gives no rates."""
LATEST = 1e11
"""Unix seconds beyond any clock."""


def families(recording: Recording) -> dict[int, list[Source]]:
    """Return the host's sources by the root pid of the family they tell of."""
    found: dict[int, list[Source]] = {}
    for source in recording.sources:
        about = _about(source)
        if source.kind == KIND and source.at and isinstance(about.get("root"), int):
            found.setdefault(int(str(about["root"])), []).append(source)
    return found


def host_of(recording: Recording, source: Source, engines: int) -> list[Source]:
    """Return the host's sources that belong to an engine's endpoint: by its name, else the only pair there is."""
    groups = families(recording)
    for group in groups.values():
        if any(_about(each).get("url") == source.name for each in group):
            return group
    nameless = [g for g in groups.values() if not any(_about(each).get("url") for each in g)]
    return nameless[0] if engines == 1 and len(groups) == 1 and nameless else []


def host_view(sources: Sequence[Source], start: float, end: float) -> HostView | None:
    """Read a family's sources between two moments of the recording, in seconds; None without any."""
    if not sources:
        return None
    found = series(sources, start, end)
    about = next(filter(None, map(_about, sources)), {})
    threads = _threads(found)
    used = sum(t.cpus for t in threads)
    busy = {s.labels.get("state", ""): s.rate for s in found.each(m.HOST_CPU)}
    others = sum(v for k, v in busy.items() if k not in ("idle", "iowait", "steal")) - used
    own = [s for s in found.each(m.HOST_CGROUP_PRESSURE) if s.labels.get("cgroup", "/") != "/"]
    return HostView(
        root=int(str(about.get("root", 0))),
        engine=str(about.get("engine", "")),
        seconds=found.seconds,
        roles=_roles(found),
        ended=_ended(found),
        threads=threads,
        stacks=_stacks(found),
        quotas=_quotas(found),
        disks=_disks(found),
        interfaces=_interfaces(found),
        cards=cards(found),
        read=_sum(found, m.HOST_READ),
        asked=_sum(found, m.HOST_ASKED),
        faults=_sum(found, m.HOST_FAULTS),
        resident=_last(found, m.HOST_RESIDENT),
        swapped=_last(found, m.HOST_SWAPPED),
        swap_in=_sum(found, m.HOST_SWAP_IN),
        cpus=_last(found, m.HOST_CPUS),
        others=max(0.0, others) if busy else None,
        steal=busy.get("steal"),
        io_stall=_stall(own, "io"),
        memory_stall=_stall(own, "memory"),
        retransmits=_retransmits(found),
        limit_hits=_rise(found, m.HOST_CGROUP_LIMIT_HITS),
        nodes=tuple(sorted({s.labels.get("node", "") for s in found.each(m.HOST_NODE)})),
        started=_starts(about.get("started")),
        gaps=(*_gaps(found), *doubts(found)),
    )


def _starts(told: object) -> tuple[float, ...]:
    times = told if isinstance(told, list) else []
    return tuple(float(t) for t in times if isinstance(t, int | float) and 0 < t < LATEST)


def _about(source: Source) -> Mapping[str, object]:
    try:
        found = json.loads(source.texts.get("family", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _roles(found: Series) -> tuple[tuple[int, str], ...]:
    pairs = {(s.pid, s.labels.get("role", "")) for s in found.each(m.HOST_PROCESS_THREADS)}
    return tuple(sorted(pairs))


def _ended(found: Series) -> tuple[tuple[int, str], ...]:
    """Processes whose memory was gone at the last reading; a zombie has none. One that is replaced has not ended."""
    gone, new = [], set()
    for s in found.each(m.HOST_RESIDENT):
        values, role = s.values(), s.labels.get("role", "")
        if not values[-1] > 0:
            gone += [(s.pid, role)] if any(value > 0 for value in values) else []
        elif not values[0] > 0:
            new.add(role)
    return tuple(sorted(pair for pair in gone if pair[1] not in new))


def _threads(found: Series) -> tuple[Thread, ...]:
    """Join the thread series by pid and name, busiest first; without two readings apart there are none."""
    if not found.seconds >= MIN_SECONDS:
        return ()
    waiting, voluntary, involuntary = (
        {s.key: s.rate for s in found.each(q)}
        for q in (m.HOST_THREAD_WAIT, m.HOST_VOLUNTARY, m.HOST_INVOLUNTARY)
    )
    states: dict[tuple[int, str], Counter[str]] = {}
    for s in found.each(m.HOST_THREAD_STATE):
        states.setdefault(s.key, Counter())[s.labels.get("state", "")] += round(s.rise)
    threads = []
    for s in found.each(m.HOST_THREAD_CPU):
        seen = states.get(s.key, Counter())
        blocked = seen["D"] / seen.total() if seen.total() else 0.0
        counts = (waiting.get(s.key, 0.0), voluntary.get(s.key, 0.0), involuntary.get(s.key, 0.0))
        threads.append(Thread(s.pid, s.labels.get("role", ""), s.key[1], s.rate, *counts, blocked))
    return tuple(sorted(threads, key=lambda t: -(t.cpus + t.waiting)))


def _stacks(found: Series) -> tuple[StackMix, ...]:
    mixes: dict[tuple[int, str, str], Counter[Doing]] = {}
    for s in found.each(m.HOST_STACKS):
        count = round(s.rise)
        if count:
            doing = classify(s.labels.get("frames", ""), active=s.labels.get("active") == "true")
            mixes.setdefault((s.pid, s.labels.get("role", ""), s.key[1]), Counter())[doing] += count
    return tuple(
        StackMix(pid, role, thread, counts.total(), tuple(counts.most_common()))
        for (pid, role, thread), counts in mixes.items()
    )


def _quotas(found: Series) -> tuple[Quota, ...]:
    throttled, seconds, cpus = (
        {s.labels.get("cgroup", ""): s for s in found.each(q)}
        for q in (m.HOST_THROTTLED_PERIODS, m.HOST_THROTTLED, m.HOST_QUOTA)
    )
    quotas = []
    for s in found.each(m.HOST_PERIODS):
        name = s.labels.get("cgroup", "")
        if name in cpus and name in throttled and s.rise:
            stood = seconds[name].rate if name in seconds else 0.0
            quotas.append(Quota(name, cpus[name].last, throttled[name].rise / s.rise, stood))
    return tuple(quotas)


def _disks(found: Series) -> tuple[Disk, ...]:
    purposes: dict[str, set[str]] = {}
    for s in found.each(m.HOST_MOUNT):
        purposes.setdefault(s.labels.get("disk", ""), set()).add(s.labels.get("purpose", ""))
    rates = {(s.labels.get("disk"), s.labels.get("operation")): s.rate for s in found.each(m.HOST_DISK_BYTES)}
    reads = {s.labels.get("disk"): s.rise for s in _of(found, m.HOST_DISK_OPERATIONS, "operation", "read")}
    spent = {s.labels.get("disk"): s.rise for s in _of(found, m.HOST_DISK_IN_FLIGHT, "operation", "read")}
    return tuple(
        Disk(
            name=(name := s.labels.get("disk", "")),
            purposes=tuple(sorted(purposes.get(name, ()))),
            read=rates.get((name, "read"), 0.0),
            written=rates.get((name, "write"), 0.0),
            busy=min(1.0, s.rate),
            read_await=spent.get(name, 0.0) / reads[name] if reads.get(name) else None,
        )
        for s in found.each(m.HOST_DISK_BUSY)
    )


def _interfaces(found: Series) -> tuple[Interface, ...]:
    """Loopback is memory, not network: it is left out."""
    rows = []
    for quantity, speeds, key in (
        (m.HOST_NETWORK_BYTES, m.HOST_NETWORK_SPEED, "interface"),
        (m.HOST_INFINIBAND_BYTES, m.HOST_INFINIBAND_SPEED, "device"),
    ):
        speed = {s.labels.get(key): s.last for s in found.each(speeds)}
        for s in _of(found, quantity, "direction", "receive"):
            name = s.labels.get(key, "")
            sent = sum(
                x.rate for x in _of(found, quantity, "direction", "transmit") if x.labels.get(key) == name
            )
            if name != "lo":
                rows.append(Interface(name, s.rate, sent, speed.get(name)))
    return tuple(rows)


def _of(found: Series, quantity: Quantity, key: str, value: str) -> list[One]:
    return [s for s in found.each(quantity) if s.labels.get(key) == value]


def _retransmits(found: Series) -> float | None:
    sent, again = _rise(found, m.HOST_TCP_SEGMENTS), _rise(found, m.HOST_TCP_RETRANSMITS)
    return again / sent if sent and again is not None else None


def _stall(own: Iterable[One], resource: str) -> float | None:
    """Largest share of time that any of the family's own cgroups was stalled, `some` tasks."""
    shares = [s.rate for s in own if s.labels.get("resource") == resource and s.labels.get("kind") == "some"]
    return max(shares, default=None)


def _sum(found: Series, quantity: Quantity) -> float | None:
    each = found.each(quantity)
    return sum(s.rate for s in each) if each and found.seconds >= MIN_SECONDS else None


def _rise(found: Series, quantity: Quantity) -> float | None:
    each = found.each(quantity)
    return sum(s.rise for s in each) if each else None


def _last(found: Series, quantity: Quantity) -> float | None:
    each = [s.last for s in found.each(quantity) if not math.isnan(s.last)]
    return sum(each) if each else None


def _gaps(found: Series) -> tuple[Gap, ...]:
    """Return what could not be read; what a card keeps from us for one reason is one gap."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for x in (s.labels for s in found.each(m.HOST_GAP)):
        what, why = _split(x.get("source", ""), x.get("reason", ""))
        together.setdefault((x.get("source", ""), why, x.get("cure", "")), []).append(what)
    return tuple(
        Gap(source, ": ".join(filter(None, (", ".join(dict.fromkeys(filter(None, whats))), why))), cure)
        for (source, why, cure), whats in together.items()
    )


def _split(source: str, reason: str) -> tuple[str, str]:
    """Part what a card does not tell from the reason; other gaps are reasons as a whole."""
    what, parted, why = reason.partition(": ")
    return (what, why) if parted and source.startswith("GPU ") else ("", reason)
