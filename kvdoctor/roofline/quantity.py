"""Read what people write: `4.58 GiB`, `3.35 TB/s`, `400 Gbps`, `128k`, `85 tok/s`."""

from __future__ import annotations

import re

from kvdoctor.errors import KvdoctorError

_NUMBER = re.compile(r"\s*([0-9][0-9_,]*\.?[0-9]*(?:e[+-]?[0-9]+)?)\s*([a-zA-Z/]*)\s*")
_SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_BITS = {"kbps": 125.0, "mbps": 125e3, "gbps": 125e6, "tbps": 125e9}


def _split(text: str, what: str) -> tuple[float, str]:
    """Split a number from its unit."""
    match = _NUMBER.fullmatch(text)
    if not match:
        raise KvdoctorError(f"{text!r} is not {what}", "write a number and a unit, such as 80GiB or 3.35TB/s")
    return float(match[1].replace(",", "").replace("_", "")), match[2]


def size_bytes(text: str, *, bare: str = "B") -> float:
    """Bytes of `80 GiB`, `14 GB`; a bare number counts in `bare` units."""
    value, unit = _split(text, "a size")
    scale = _SIZES.get((unit or bare).lower())
    if scale is None:
        raise KvdoctorError(f"{unit!r} is not a unit of size", "use GB (10^9) or GiB (2^30)")
    return value * scale


def rate_bytes_per_s(text: str, *, bare: str = "GB/s") -> float:
    """Bytes per second of `3.35 TB/s`, `26 GB/s`, `400 Gbps` (bits); a bare number counts in `bare` units."""
    value, unit = _split(text, "a rate")
    low = (unit or bare).lower()
    if low in _BITS or low.replace("bit/s", "bps") in _BITS:
        return value * _BITS[low.replace("bit/s", "bps")]
    scale = _SIZES.get(low[:-2]) if low.endswith("/s") else None
    if scale is None:
        raise KvdoctorError(f"{unit!r} is not a unit of rate", "use GB/s (10^9 bytes), GiB/s or Gbps (bits)")
    return value * scale


def token_count(text: str) -> int:
    """Tokens of `4096`, `128k` (binary: 131072, as engines and configs mean it), `1M` (1048576), `128000`."""
    value, unit = _split(text, "a number of tokens")
    scale = {"": 1, "k": 2**10, "m": 2**20}.get(unit.lower())
    if scale is None:
        raise KvdoctorError(f"{text!r} is not a number of tokens", "write 131072, or 128k for 131072")
    return round(value * scale)


def tokens_per_s(text: str) -> float:
    """Tokens per second of `85 tok/s`, `85`, `11.8 ms` (its reciprocal: a time per token)."""
    value, unit = _split(text, "a rate of tokens")
    low = unit.lower()
    if low in ("", "tok/s", "tokens/s", "tps", "t/s"):
        return value
    seconds = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "ms/tok": 1e-3, "s/tok": 1.0}.get(low)
    if seconds is None or value == 0:
        raise KvdoctorError(f"{text!r} is not a rate of tokens", "write 85 tok/s or 11.8 ms")
    return 1 / (value * seconds)
