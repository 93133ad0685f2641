"""How long the network probe's transfers take: seconds on a link of its own, bursts on one that a service uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdoctor.errors import Unavailable
from kvdoctor.probes.timing import ACTIVE_S, ALONE, BURST_S, IDLE_FACTOR, SHARED_REPEATS, Pace

KIB, MIB = 2**10, 2**20
SHARED_MESSAGES = (64 * KIB, MIB)
"""Beside a service: a larger message may take longer than a burst on a slow link."""
SHARED_SECONDS, SHARED_WARM_S, SHARED_PING_S = 0.04, 0.01, 0.02
"""Of a transfer there: with what is still under way when it ends, a burst of 50 ms."""
SHARED_BYTES = 4 * 2**30
"""Payload of all bursts there at most: that of a second of 32 Gb/s."""
SHARED_LIMIT_S = (1 + IDLE_FACTOR) * (ACTIVE_S + BURST_S) + 5.0
"""All bursts with their rests, and the start of a peer."""
SHORT = "payload over bursts of about 50 ms, in which TCP's window still grows: each rate is a lower bound"
USED_UP = "the second of bursts, or the 4 GiB, that are taken beside a service were used up"
NO_GLOO = Unavailable("it takes seconds of the link, and beside a service only bursts are sent", ALONE)


@dataclass(slots=True)
class Tempo:
    """Seconds of one transfer, of its warm-up and of the single messages, and what has been moved."""

    messages: tuple[int, ...]
    seconds: float
    warm_s: float
    ping_s: float
    repeats: int
    pace: Pace = field(default_factory=Pace)
    bytes: int = 0
    """Payload so far."""
    largest: int = 0
    """Payload of the largest burst so far."""

    @property
    def used_up(self) -> bool:
        """Say whether nothing more should be sent."""
        return self.pace.used_up or (self.pace.shared and self.bytes + self.largest > SHARED_BYTES)

    def rest(self, seconds: float, payload: int) -> None:
        """Count one burst, and rest after it where the link is somebody else's too."""
        self.bytes += payload
        self.largest = max(self.largest, payload)
        self.pace.rest(seconds)


def shared_tempo(until: float) -> Tempo:
    """Return the tempo beside a service; nothing begins after `until` on the monotonic clock."""
    pace = Pace(shared=True, until=until)
    return Tempo(SHARED_MESSAGES, SHARED_SECONDS, SHARED_WARM_S, SHARED_PING_S, SHARED_REPEATS, pace)
