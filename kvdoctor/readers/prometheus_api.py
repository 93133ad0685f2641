"""A Prometheus server, or any store that speaks its API, as one recording: raw samples, replicas told apart."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from urllib.parse import quote

from kvdoctor import __version__, address
from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.readers.replicas import Replicas
from kvdoctor.readers.selector import matchers
from kvdoctor.recording import Recording
from kvdoctor.secrets import clean, mask_url
from kvdoctor.wire import Wire

DEADLINE = 30.0
"""Seconds for one query; a server's own limit is two minutes."""
MAX_ANSWER = 128 * 2**20
MAX_SAMPLES = 20_000_000
"""Samples that are read in all: 64 replicas for an hour are two million."""
PLAIN_TOGETHER = 8
"""Names without buckets that are asked for in one query; a histogram's buckets are asked for alone."""
MAX_WARNINGS = 5
ANY = '__name__=~".+"'
"""Every name."""
_SINCE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\Z")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, None: 1.0}
_STATUS = {
    401: "it asks for a token",
    403: "it does not let us in",
    404: "there is no Prometheus API at this address",
    422: "it cannot execute the query",
    503: "it is not ready, or a query took too long",
}


def seconds_of(since: str) -> float:
    """Read `90s`, `15m`, `1h` or `2d`; KvdoctorError for anything else."""
    found = _SINCE.match(since.strip())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < value < 1e8:
        raise KvdoctorError(f"--since {clean(since)[:40]} is no stretch of time", "give it as 15m, 1h or 2d")
    return value


class Api:
    """The query API of one server. A token goes to this server and to no other."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        place = address.parse(url.strip().rstrip("/") + "/api/v1/metrics")
        self.name = mask_url(url.strip().rstrip("/"))
        self._root = f"{place.base}/v1"
        self._wire = Wire(place)
        self._headers = {"User-Agent": f"kvdoctor/{__version__}", "Accept": "application/json"}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable():
                raise KvdoctorError("the token is empty or has characters that no HTTP header can carry", "")
            self._headers["Authorization"] = f"Bearer {token}"
        elif place.user:
            raise KvdoctorError(
                "a name and password in the URL are not read", "give a token: --api-key TOKEN"
            )
        self.bytes = 0
        self.longest = 0.0
        self.warnings: dict[str, None] = {}
        """What the server said beside an answer, each once."""

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.close()

    def get(self, path: str, asked: Sequence[tuple[str, str]]) -> object:
        """Return the `data` of one answer; KvdoctorError says what the server said instead."""
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in asked)
        begin = time.monotonic()
        try:
            answer = self._wire.get(
                f"{self._root}/{path}?{query}", self._headers, deadline_s=DEADLINE, limit=MAX_ANSWER
            )
        except Unavailable as reason:
            raise KvdoctorError(f"{self.name}: {reason.reason}", reason.cure) from None
        self.longest = max(self.longest, time.monotonic() - begin)
        self.bytes += len(answer.body)
        data = _data(answer.body)
        if (
            answer.status != 200
            or answer.cut
            or not isinstance(data, dict)
            or data.get("status") != "success"
        ):
            raise self._refused(answer.status, data)
        self._warned(data.get("warnings"))
        return data.get("data")

    def _warned(self, said: object) -> None:
        """Keep warnings: stores that lost a part of their data answer with the rest, and say so here."""
        for one in said if isinstance(said, list) else ():
            if len(self.warnings) < MAX_WARNINGS:
                self.warnings[clean(mask_url(str(one)))[:300]] = None

    def gaps(self) -> list[Gap]:
        """Return the warnings as gaps."""
        cure = "ask the store itself why, and read again"
        return [
            Gap(self.name, f"it warns that its answer may lack data: {one}", cure) for one in self.warnings
        ]

    def names(self, matchers: Sequence[str], start: float, end: float) -> list[str]:
        """Return the metric names that any of the matchers leads to."""
        asked = [("match[]", "{" + inner + "}") for inner in matchers]
        found = self.get("label/__name__/values", [*asked, ("start", f"{start:.3f}"), ("end", f"{end:.3f}")])
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    def raw(self, select: str, seconds: float, end: float) -> Iterator[tuple[dict[str, str], list[object]]]:
        """Yield labels and samples, [time, text] each, of every series as it was scraped."""
        query = f"{select}[{math.ceil(seconds)}s]"
        data = self.get("query", [("query", query), ("time", f"{end:.3f}")])
        result = data.get("result") if isinstance(data, dict) else None
        for series in result if isinstance(result, list) else ():
            labels = series.get("metric") if isinstance(series, dict) else None
            values = series.get("values") if isinstance(series, dict) else None
            if isinstance(labels, dict) and isinstance(values, list):
                yield {str(k): str(v) for k, v in labels.items()}, values

    def _refused(self, status: int, data: object) -> KvdoctorError:
        said = data.get("error") if isinstance(data, dict) else None
        why = (
            clean(mask_url(str(said)))[:300]
            if said
            else _STATUS.get(status, f"it answers with HTTP {status}")
        )
        cure = (
            "give a token: --api-key TOKEN" if status in (401, 403) else "look at its address and at --match"
        )
        return KvdoctorError(f"{self.name}: {why}", cure)


def _data(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def read_api(
    url: str,
    *,
    since: float,
    matches: Sequence[str] = (),
    wanted: Iterable[str],
    unbucketed: Iterable[str] = (),
    token: str | None = None,
    now: float | None = None,
) -> Recording:
    """Read what a server holds of the wanted names over `since` seconds, a source for each replica.

    `wanted` are names as engines export them, a histogram by its family; what is not among them is not asked for.
    Of histograms in `unbucketed`, sum and count are enough.
    """
    end = time.time() if now is None else now
    with Api(url, token=token) as api:
        known = set(wanted)
        asked = [",".join(matchers(match)) for match in matches]
        # A server refuses to list names by matchers that an absent label fulfils as well: pod!="a".
        inner = [f"{ANY},{match}" for match in asked] or [ANY]
        needless = {f"{name}_bucket" for name in unbucketed}
        names = [n for n in api.names(inner, end - since, end) if _stem(n, known) and n not in needless]
        if not names:
            raise KvdoctorError(
                f"{api.name} holds no metric of an engine or a KV layer that is known here",
                "check --match and --since, and that the server scrapes the engines",
            )
        replicas = Replicas()
        for group in _groups(names):
            for match in asked or [""]:
                _collect(api, group, match, since, end, replicas)
                if replicas.samples > MAX_SAMPLES:
                    gap = Gap(
                        api.name, f"only the first {MAX_SAMPLES:,} samples were read", "a shorter --since"
                    )
                    return _recording(api, replicas, end - since, [gap])
        return _recording(api, replicas, end - since, [])


def _collect(
    api: Api, names: Sequence[str], match: str, since: float, end: float, replicas: Replicas
) -> None:
    pattern = "|".join(re.escape(name).replace("\\", "\\\\") for name in names)
    inner = f'__name__=~"{pattern}"' + (f",{match}" if match else "")
    for labels, samples in api.raw("{" + inner + "}", since, end):
        replicas.add(labels, samples)


_SUFFIX = re.compile(r"_(?:bucket|sum|count|total)\Z")


def _stem(name: str, wanted: set[str]) -> bool:
    """Say whether a name on the wire belongs to one that is wanted."""
    return name in wanted or _SUFFIX.sub("", name) in wanted or name.removesuffix("_total") in wanted


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """Group names into queries: a histogram's buckets alone, the others by a few."""
    plain = [name for name in names if not name.endswith("_bucket")]
    yield from ([name] for name in names if name.endswith("_bucket"))
    for first in range(0, len(plain), PLAIN_TOGETHER):
        yield plain[first : first + PLAIN_TOGETHER]


def _recording(api: Api, replicas: Replicas, start: float, gaps: list[Gap]) -> Recording:
    sources, gaps = replicas.sources(start), [*gaps, *api.gaps()]
    if not sources:
        raise KvdoctorError(f"{api.name} has no sample in that stretch of time", "a longer --since")
    cost = Cost(0.0, api.bytes, api.longest)
    return Recording(VERSION, __version__, start, sources, gaps, {}, cost)
