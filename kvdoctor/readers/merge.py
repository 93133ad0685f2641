"""Several recordings as one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from kvdoctor.model import Cost
from kvdoctor.recording import Recording, Source


def merged(timed: Sequence[Recording], untimed: Sequence[Recording]) -> Recording:
    """Bring recordings together on one clock that starts with the first of them; later facts count.

    How the clocks of untimed ones relate is not known: each of them keeps its own start.
    """
    recordings = [*timed, *untimed]
    if len(recordings) == 1:
        return recordings[0]
    first = min(timed or untimed, key=lambda recording: recording.wall)
    costs = [recording.cost for recording in recordings]
    return Recording(
        version=max(recording.version for recording in recordings),
        kvdoctor=first.kvdoctor,
        wall=first.wall,
        sources=[
            *(_moved(source, r.wall - first.wall) for r in timed for source in r.sources),
            *(source for r in untimed for source in r.sources),
        ],
        gaps=[gap for recording in recordings for gap in recording.gaps],
        facts={key: fact for recording in recordings for key, fact in recording.facts.items()},
        cost=Cost(
            sum(cost.cpu_seconds for cost in costs),
            sum(cost.bytes for cost in costs),
            max(cost.longest_read_seconds for cost in costs),
        ),
        complete=all(recording.complete for recording in recordings),
    )


def _moved(source: Source, seconds: float) -> Source:
    at = array("d", (t + seconds for t in source.at))
    return replace(source, at=at, wall=source.wall - seconds)
