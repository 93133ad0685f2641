"""Python stacks of a family by `py-spy dump --nonblocking`, which stops nobody, counted as folded stacks."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kvdoctor.collectors import pyspy
from kvdoctor.collectors.lines import HostPage, Lines
from kvdoctor.errors import Refused, Unavailable
from kvdoctor.secrets import clean
from kvdoctor.target.family import Member

BUDGET = 0.45
"""Seconds of dumps in one reading: two ticks of a second under the sampling loop's share, so eight in 15 s."""
ALWAYS = 4
"""Members that are read each time, those first that set the pace; the others take turns."""
MAX_FRAMES = 48
"""Frames that are kept of a stack, the innermost ones."""
MAX_STACKS = 3000
"""Different stacks that are told apart in one recording; the rest is counted as `(more)`."""
MAX_NAME = 160
GIVE_UP = 3
"""Failures without a success, after which a member is not tried again."""
MAIN = "main"

PACE = ("engine_core", "scheduler", "loop", "worker", "api_server", "tokenizer", "detokenizer", "coordinator")
"""Roles in the order in which their stacks tell most."""

_DIGITS = re.compile(r"\d+")
_ROOTS = ("/site-packages/", "/dist-packages/")
_LIBRARY = re.compile(r"^.*/lib/python3\.\d+t?/")
Dump = Callable[[int], bytes]


class Stacks:
    """Stacks of the members, counted. `dump` returns py-spy's JSON of a pid, or raises Unavailable."""

    name, kind, role = "stacks", "host", None

    def __init__(
        self,
        members: Sequence[Member],
        *,
        dump: Dump = pyspy.dump,
        monotonic: Callable[[], float] = time.monotonic,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._dump, self._monotonic, self._about = dump, monotonic, dict(about or {})
        known = [member for member in members if member.role in PACE]
        self._members = sorted(known, key=lambda member: PACE.index(member.role))
        self._turn = 0
        self._stacks: Counter[tuple[Member, str, str, str]] = Counter()
        self._dumps: Counter[Member] = Counter()
        self._seconds: dict[Member, float] = {}
        self._failed: dict[Member, Unavailable] = {}
        self._failures: Counter[Member] = Counter()

    def read(self) -> HostPage:
        """Dump members for a while and return all counts so far; Refused when no dump ever worked."""
        end = self._monotonic() + BUDGET
        for number, member in enumerate(self._order()):
            if number and self._monotonic() >= end:
                break
            self._member(member)
        if not self._dumps:
            raise self._refusal()
        return self._page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open: a dump under way ends by itself within its limit."""

    def _order(self) -> list[Member]:
        """Those that set the pace, then the others from where the last reading left off."""
        live = [member for member in self._members if self._failures[member] < GIVE_UP]
        first, rest = live[:ALWAYS], live[ALWAYS:]
        if rest:
            turn = self._turn % len(rest)
            self._turn += ALWAYS
            rest = (rest[turn:] + rest[:turn])[:ALWAYS]
        return first + rest

    def _member(self, member: Member) -> None:
        begin = self._monotonic()
        try:
            stacks = folded(self._dump(member.pid), member)
        except Unavailable as failure:
            self._failed[member] = failure
            self._failures[member] += GIVE_UP if isinstance(failure, Refused) else 1
            return
        self._failures[member] = 0
        self._failed.pop(member, None)
        self._dumps[member] += 1
        self._seconds[member] = self._seconds.get(member, 0.0) + self._monotonic() - begin
        for thread, active, frames in stacks:
            key = (member, thread, active, frames)
            if key not in self._stacks and len(self._stacks) >= MAX_STACKS:
                key = (member, thread, active, "(more)")
            self._stacks[key] += 1

    def _refusal(self) -> Unavailable:
        if not self._members:
            return Refused("no process of the family runs Python, as far as its role tells")
        failure = next(iter(self._failed.values()))
        every = all(self._failures[member] >= GIVE_UP for member in self._members)
        return (Refused if every else Unavailable)(failure.reason, failure.cure)

    def _page(self) -> HostPage:
        lines = Lines()
        for member, count in self._dumps.items():
            labels = (("pid", str(member.pid)), ("role", member.role))
            lines.add("host_stack_dumps_total", float(count), *labels)
            lines.add("host_stack_dump_seconds_total", float(self._seconds[member]), *labels)
        for (member, thread, active, frames), count in self._stacks.items():
            lines.add(
                "host_stack_samples_total",
                float(count),
                ("pid", str(member.pid)),
                ("role", member.role),
                ("thread", thread),
                ("active", active),
                ("frames", frames),
            )
        for member, failure in self._failed.items():
            lines.gap("stacks", f"{member.role} {member.pid}: {failure.reason}", failure.cure)
        return lines.page()


def folded(dump: bytes, member: Member) -> list[tuple[str, str, str]]:
    """Return (thread, `true` or `false` for active, folded frames) of each thread of a dump.

    Folded frames are `module:function` from the outermost in, joined by `;`. Locals, arguments, line numbers and
    folders are dropped. A dump that is no JSON raises Unavailable: without stopping it, one may come out torn.
    """
    try:
        threads = json.loads(dump)
    except (ValueError, RecursionError):
        raise Unavailable("a dump came out torn") from None
    found = []
    for thread in threads if isinstance(threads, list) else ():
        if not isinstance(thread, dict) or not isinstance(thread.get("frames"), list):
            continue
        frames = [_frame(frame) for frame in thread["frames"][:MAX_FRAMES] if isinstance(frame, dict)]
        name = clean(str(thread.get("thread_name") or ""))
        tid = thread.get("os_thread_id")
        main = name == "MainThread" or (tid is not None and tid in (member.pid, member.ns_pid))
        name = MAIN if main else _DIGITS.sub("N", name)[:MAX_NAME] or "?"
        found.append((name, str(bool(thread.get("active"))).lower(), ";".join(reversed(frames))))
    return found


def _frame(frame: Mapping[str, object]) -> str:
    module = _module(str(frame.get("filename") or ""), str(frame.get("short_filename") or ""))
    function = str(frame.get("name") or "?").replace(";", ",")[:MAX_NAME]
    return f"{module}:{function}"


def _module(path: str, short: str) -> str:
    """Return a dotted module name that keeps no folder of the machine: below site-packages, else the file alone."""
    path = path.replace("\\", "/")
    for root in _ROOTS:
        if root in path:
            return _dotted(path.rpartition(root)[2])
    library = _LIBRARY.sub("", path)
    if library != path:
        return _dotted(library)
    if path and short and not short.startswith("/") and path.endswith(short) and "/" in short:
        return _dotted(short)
    return _dotted(path.rpartition("/")[2])


def _dotted(path: str) -> str:
    plain = path.removesuffix(".py").removesuffix("/__init__")
    return plain.replace("/", ".").replace(";", ",").replace(":", "_")[:MAX_NAME]
