"""One engine's metrics page over HTTP. Reads that page, `/version` and `/v1/models`, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvdoctor import __version__, address
from kvdoctor.errors import KvdoctorError, Refused, Unanswered, Unavailable
from kvdoctor.secrets import clean, mask_url

if TYPE_CHECKING:
    from kvdoctor.wire import Answer, Wire

DEADLINE = 5.0
"""Seconds for one whole reading. A vLLM whose event loop is busy takes 0.1 to 1 s."""
DOCUMENT_DEADLINE = 2.0
MAX_PAGE = 64 * 2**20
MAX_DOCUMENT = 256 * 2**10
MAX_MODELS = 50
MAX_TEXT = 300
"""Characters that are kept of one value of a document."""

_NO_KEY = ("it asks for a key", "give it: --api-key KEY")
_NO_PROXY = ("a proxy answers, and no server behind it", "give the server's own address")
_STATUS: dict[int, tuple[str, str]] = {
    401: _NO_KEY,
    403: ("it does not let us in", "give a key that it lets in: --api-key KEY"),
    404: (
        "there is no metrics page at this path",
        "vLLM: <root path>/metrics, and no --disable-log-stats; SGLang: start it with --enable-metrics; "
        "TensorRT-LLM: /prometheus/metrics",
    ),
    407: _NO_PROXY,
    429: ("it says that we ask too often", "a larger --interval"),
    501: ("its metrics are switched off", "llama.cpp: start it with --metrics"),
    502: _NO_PROXY,
    503: ("it is not ready", "try again when it has started; its log says more"),
    504: _NO_PROXY,
}
_NOBODY = (502, 504)
"""What a proxy says when nobody behind it answers."""
_LASTING = frozenset((401, 403, 404, 405, 407, 410, 501))


@dataclass(frozen=True, slots=True)
class Page:
    """One metrics page as it came."""

    text: bytes
    cut: bool
    """True when the server broke off in the middle."""


class Endpoint:
    """One metrics page. Making it touches nothing; KvdoctorError when the URL or the key cannot be.

    The key goes to the server that the URL names and to no other, and is stored nowhere.
    """

    kind = "prometheus"

    def __init__(
        self, url: str, *, api_key: str | None = None, role: str | None = None, deadline_s: float = DEADLINE
    ) -> None:
        self._address = address.parse(url)
        self.name, self.role = self._address.name, role
        self._deadline = deadline_s
        self._headers = _headers(self._address, api_key)
        self._has_key = api_key is not None or self._address.user is not None
        self._wire: Wire | None = None

    def read(self) -> Page:
        """Return the page. Unavailable says why there is none now, Refused why there will be none."""
        headers = {**self._headers, "Accept": "text/plain; version=0.0.4"}
        answer = self._open().get(self._address.target, headers, deadline_s=self._deadline, limit=MAX_PAGE)
        if answer.status != 200:
            raise self._refusal(answer)
        _check(answer)
        return Page(answer.body, answer.cut)

    def documents(self) -> dict[str, str]:
        """Return what the server says of itself, as far as it does.

        `version`: its version; `models`: a JSON list of objects with `id`, `root`, `max_model_len`.
        """
        version = _known(self._json("/version"), ("version",)).get("version")
        listed = self._json("/v1/models")
        data = listed.get("data") if isinstance(listed, dict) else None
        models = [_known(m, ("id", "root", "max_model_len")) for m in data] if isinstance(data, list) else []
        models = [m for m in models if m][:MAX_MODELS]
        found = {"version": str(version)} if version is not None else {}
        return {**found, "models": json.dumps(models)} if models else found

    def close(self) -> None:
        """Close the connection; a reading under way in another thread ends at once."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _open(self) -> Wire:
        wire = self._wire
        if wire is None:
            from kvdoctor.wire import Wire  # brings ssl and email along, which reading a file does not need

            wire = self._wire = Wire(self._address)
        return wire

    def _json(self, path: str) -> object:
        """Return a small JSON document, None when there is none to be had."""
        headers = {**self._headers, "Accept": "application/json"}
        target = self._address.base + path
        try:
            answer = self._open().get(target, headers, deadline_s=DOCUMENT_DEADLINE, limit=MAX_DOCUMENT)
            return json.loads(answer.body) if answer.status == 200 and not answer.cut else None
        except (Unavailable, ValueError, RecursionError):
            return None

    def _refusal(self, answer: Answer) -> Unavailable:
        status = answer.status
        if 300 <= status < 400:
            return _redirect(answer)
        reason, cure = _STATUS.get(status, ("it answers with an error", "look at the server's log"))
        if status == 401 and self._has_key:
            reason, cure = (
                "it does not accept the key",
                "check the value of --api-key, or what the URL carries",
            )
        if status in _NOBODY:
            return Unanswered(f"{reason} (HTTP {status})", cure)
        kind = Refused if status in _LASTING else Unavailable
        return kind(f"{reason} (HTTP {status})", cure)


def _headers(place: address.Address, api_key: str | None) -> dict[str, str]:
    # Compressing a page is work in the server's event loop: a loop that we came to observe.
    headers = {"User-Agent": f"kvdoctor/{__version__}", "Accept-Encoding": "identity"}
    if api_key is not None:
        if not api_key or not api_key.isascii() or not api_key.isprintable():
            raise KvdoctorError("the API key is empty or has characters that no HTTP header can carry", "")
        if place.user:
            raise KvdoctorError("there are two credentials for one URL", "drop --api-key or those in the URL")
        headers["Authorization"] = f"Bearer {api_key}"
    elif place.user:
        import base64
        from urllib.parse import unquote_to_bytes

        headers["Authorization"] = "Basic " + base64.b64encode(unquote_to_bytes(place.user)).decode()
    return headers


def _redirect(answer: Answer) -> Refused:
    location = mask_url(clean(answer.location))[:MAX_TEXT]
    host = location.partition("://")[2].partition("/")[0] if "://" in location else "another path"
    return Refused(
        f"it sends us to {host} (HTTP {answer.status}); no redirect is followed",
        f"if you trust it: --url {location}" if location else "give the page's own URL",
    )


def _check(answer: Answer) -> None:
    """Raise Refused when a page that came with status 200 is no metrics page."""
    start = answer.body[:512].lstrip()
    if not start and answer.cut:
        raise Unavailable("it broke off before it had said anything", "look at the server's log")
    if not start:
        raise Unavailable("it answers with an empty page", "are its metrics switched on?")
    if start.startswith(b"<"):
        raise Refused(
            "it answers with a web page, not with metrics",
            "is it a proxy or a login page? give the server's own address",
        )
    if start.startswith((b"[", b'"')) or (start.startswith(b"{") and _is_json(answer)):
        raise Refused(
            "it answers with JSON, as TensorRT-LLM does at /metrics; a reading takes those figures away from "
            "others, so it was read once only",
            "TensorRT-LLM: give /prometheus/metrics, and start it with return_perf_metrics: true",
        )


def _is_json(answer: Answer) -> bool:
    """Say whether a page that starts with a brace is JSON; `{"a.name"} 1` is a metric whose name is quoted."""
    if answer.kind.endswith("json"):
        return True
    try:
        return isinstance(json.loads(answer.body), dict)
    except (ValueError, RecursionError):
        return False


def _known(entry: object, keys: tuple[str, ...]) -> dict[str, str | int]:
    """Keep the known keys of a document's object, whose values are short texts or numbers."""
    if not isinstance(entry, dict):
        return {}
    kept: dict[str, str | int] = {}
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str):
            kept[key] = mask_url(clean(value[:MAX_TEXT]).encode("utf-8", "replace").decode("utf-8"))
        elif isinstance(value, int) and not isinstance(value, bool):
            kept[key] = value
    return kept
