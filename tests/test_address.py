"""The forms in which people give an endpoint."""

from __future__ import annotations

import pytest

from kvdoctor.address import parse
from kvdoctor.errors import KvdoctorError


@pytest.mark.parametrize(
    ("url", "name", "base"),
    [
        ("http://host:8000", "http://host:8000/metrics", ""),
        ("http://host:8000/", "http://host:8000/metrics", ""),
        ("http://host:8000/metrics", "http://host:8000/metrics", ""),
        ("http://host:8000/metrics/", "http://host:8000/metrics/", ""),
        ("host:8000", "http://host:8000/metrics", ""),
        ("host", "http://host:80/metrics", ""),
        ("HTTPS://host", "https://host:443/metrics", ""),
        ("http://[::1]:8000", "http://[::1]:8000/metrics", ""),
        ("http://host:8000/v1", "http://host:8000/metrics", ""),
        ("http://host:8000/v1/", "http://host:8000/metrics", ""),
        ("http://host/llama", "http://host:80/llama/metrics", "/llama"),
        ("http://host/llama/v1", "http://host:80/llama/metrics", "/llama"),
        ("http://host/llama/metrics", "http://host:80/llama/metrics", "/llama"),
        ("http://host:8000/prometheus/metrics", "http://host:8000/prometheus/metrics", ""),
        ("http://host/v1/loads?format=prometheus", "http://host:80/v1/loads?format=prometheus", ""),
        ("http://user:p@ss@host:1", "http://***@host:1/metrics", ""),
        ("http://host/metrics?token=abc", "http://host:80/metrics?token=***", ""),
        ("http://bücher:1", "http://bücher:1/metrics", ""),
    ],
)
def test_a_url_names_a_page_and_the_pages_beside_it(url: str, name: str, base: str) -> None:
    address = parse(url)
    assert (address.name, address.base) == (name, base)


def test_a_name_beyond_ascii_is_looked_up_as_dns_knows_it() -> None:
    assert parse("http://bücher:1").host == "xn--bcher-kva"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "ftp://u:hidden@host",
        "file:///etc/passwd",
        "::1",
        "http://host:99999",
        "http://host:0",
        "http://host:x",
        "u:hidden@h ost",
        "http://host/a b",
        "http://host/\r\nX: y",
        "http://host/ü",
        "http://" + "ü" * 80,
    ],
)
def test_what_is_no_url_is_refused_with_a_hint_and_no_password(url: str) -> None:
    with pytest.raises(KvdoctorError) as caught:
        parse(url)
    assert caught.value.hint
    assert "hidden" not in caught.value.message
    assert "\n" not in caught.value.message
