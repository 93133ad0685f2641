"""What a user calls an endpoint, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kvdoctor.errors import KvdoctorError
from kvdoctor.secrets import MASK, clean, mask_url

_URL = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?:(?P<user>[^/?#]*)@)?"
    r"(?P<host>\[[0-9a-f:.%]+\]|[^:/?#@\[\]]+)(?::(?P<port>\d{1,6}))?"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?:#.*)?\Z",
    re.IGNORECASE,
)
_PORTS = {"http": 80, "https": 443}
_HINT = "give it as http://host:8000, host:8000 or https://[::1]:8443/metrics"


@dataclass(frozen=True, slots=True)
class Address:
    """Where one metrics page is."""

    scheme: str
    host: str
    """Without brackets."""
    port: int
    target: str = field(repr=False)
    """Path and query of the metrics page."""
    base: str
    """Path that the server's other pages lie under, without a slash at its end."""
    name: str
    """The whole URL, credentials masked: fit for recordings and reports."""
    user: str | None = field(default=None, repr=False)
    """`name:password` as written in the URL, percent-encoded."""


def parse(url: str) -> Address:
    """Take a URL, `host:port` or `host` apart; KvdoctorError when it is none of them.

    A path that does not name a metrics page is taken for the root path of the server: `/metrics` is
    added. A `/v1` at its end, the base that API clients are given, is dropped.
    """
    found = _URL.match(url.strip())
    if not found or not found["host"] or not url.strip().isprintable() or " " in url.strip():
        raise KvdoctorError(f"{_shown(url).strip() or 'what was given'} is not a URL", _HINT)
    scheme = (found["scheme"] or "http").lower()
    if scheme not in _PORTS:
        raise KvdoctorError(f"{_shown(url)}: {scheme} is not read, only http and https", _HINT)
    port = int(found["port"] or _PORTS[scheme])
    if not 0 < port < 65536:
        raise KvdoctorError(f"{_shown(url)}: there is no port {port}", _HINT)
    path = _path(found["path"] or "", found["query"] or "")
    if not path.isascii() or not (found["query"] or "").isascii():
        raise KvdoctorError(f"{_shown(url)}: letters beyond ASCII must be percent-encoded", _HINT)
    target = path + (found["query"] or "")
    user = f"{MASK}@" if found["user"] else ""
    return Address(
        scheme=scheme,
        host=_host(found["host"].strip("[]"), url),
        port=port,
        target=target,
        base=_base(path),
        name=mask_url(f"{scheme}://{user}{found['host']}:{port}{target}"),
        user=found["user"] or None,
    )


def _host(host: str, url: str) -> str:
    """Return a host name as DNS knows it."""
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise KvdoctorError(f"{_shown(url)} names a host that cannot be", _HINT) from None


def _path(path: str, query: str) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    if query or "metrics" in last or "prometheus" in last:
        return path or "/metrics"
    return re.sub(r"(?:/v1)?/*\Z", "", path) + "/metrics"


def _base(path: str) -> str:
    """Drop the page itself, and TensorRT-LLM's folder for it."""
    return re.sub(r"(?:/v1|/prometheus)?/[^/]*/?\Z", "", path)


def _shown(url: str) -> str:
    """Return a URL that may be malformed, without what may be a password."""
    before, at, after = " ".join(clean(url).split()).rpartition("@")
    return f"{MASK}@{after}" if at and before else mask_url(after)
