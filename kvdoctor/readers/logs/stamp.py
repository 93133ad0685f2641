"""The time that a log line carries, in the forms that loggers and container runtimes write it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_CLOCK = rb"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_FULL = re.compile(rb"(\d{4})[-/](\d\d)[-/](\d\d)[T ]" + _CLOCK)
_SHORT = re.compile(rb"(?<!\d)()(\d\d)-(\d\d) " + _CLOCK)
_AMERICAN = re.compile(rb"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4})[- ]" + _CLOCK)
_SYSLOG = re.compile(rb"(?P<name>[A-Z][a-z][a-z]) +(?P<day>\d{1,2}) " + _CLOCK)
_GLOG = re.compile(rb"\b[IWEF](\d{4})?(\d\d)(\d\d) " + _CLOCK)
_EPOCH = re.compile(rb"(?:\[|timestamp=)(1\d{9}(?:\.\d+)?)\b")
LOOKED_AT = 240
"""Characters at the front of a line in which its time stands, container prefixes included."""


def stamp(line: bytes, latest: float) -> float | None:
    """Return the time of a line in seconds since 1970, None when it has none.

    A time without a zone is taken as UTC, one without a year as the last one before `latest`.
    """
    text = line[:LOOKED_AT]
    epoch = _EPOCH.search(text)
    if epoch:
        return float(epoch[1])
    for pattern in (_FULL, _SHORT, _GLOG):
        found = pattern.search(text)
        if found:
            year, month, day = (int(found[i] or 0) for i in (1, 2, 3))
            return _seconds(year, month, day, found.groups()[3:], latest)
    found = _AMERICAN.search(text)
    if found:
        parts = (int(found["year"]), int(found["month"]), int(found["day"]))
        return _seconds(*parts, found.groups()[3:], latest)
    found = _SYSLOG.search(text)
    if found and found["name"] in _MONTHS:
        month = _MONTHS.index(found["name"]) + 1
        return _seconds(0, month, int(found["day"]), found.groups()[2:], latest)
    return None


def _seconds(year: int, month: int, day: int, clock: tuple[bytes | None, ...], latest: float) -> float | None:
    hour, minute, second = (int(part or 0) for part in clock[:3])
    fraction = float(b"0." + clock[3]) if len(clock) > 3 and clock[3] else 0.0
    newest = datetime.fromtimestamp(min(max(latest, 0.0), 4e9), timezone.utc) + timedelta(days=1)
    for candidate in (year,) if year else (newest.year, newest.year - 1, newest.year - 4):
        try:
            moment = datetime(candidate, month, day, hour, minute, second, tzinfo=timezone.utc)
        except ValueError:
            continue
        if year or moment <= newest:
            return moment.timestamp() + fraction
    return None
