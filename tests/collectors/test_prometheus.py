"""The endpoint against a real server, well-behaved and not."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import badserver
import pytest
from badserver import PAGE, page, serving, status

from kvdoctor import wire
from kvdoctor.collectors import prometheus
from kvdoctor.collectors.prometheus import Endpoint
from kvdoctor.errors import KvdoctorError, Refused, Unanswered, Unavailable

SHORT = 0.4


def read(behaviour: badserver.Behaviour, **options: object) -> prometheus.Page:
    with serving(behaviour) as server:
        endpoint = Endpoint(server.url, **options)  # type: ignore[arg-type]
        try:
            return endpoint.read()
        finally:
            endpoint.close()


def failure(behaviour: badserver.Behaviour, **options: object) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        read(behaviour, **options)
    return caught.value


def test_a_page_comes_as_it_is() -> None:
    assert read(badserver.good) == prometheus.Page(PAGE, cut=False)


def test_a_zipped_page_is_unzipped() -> None:
    assert read(badserver.zipped) == prometheus.Page(PAGE, cut=False)


@pytest.mark.parametrize("behaviour", [badserver.cut, badserver.cut_chunks])
def test_a_page_that_breaks_off_is_marked_as_cut(behaviour: badserver.Behaviour) -> None:
    page = read(behaviour)
    assert page.cut
    assert PAGE.startswith(page.text)


@pytest.mark.parametrize("behaviour", [badserver.hanging, badserver.trickling_head, badserver.trickling_body])
def test_a_deadline_holds_against_hanging_and_trickling(behaviour: badserver.Behaviour) -> None:
    start = time.monotonic()
    assert failure(behaviour, deadline_s=SHORT).reason == "no whole answer within 0.4 s"
    assert time.monotonic() - start < 10 * SHORT


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (status(401), Refused, "asks for a key (HTTP 401)"),
        (status(403), Refused, "does not let us in (HTTP 403)"),
        (status(404), Refused, "no metrics page at this path (HTTP 404)"),
        (status(500), Unavailable, "answers with an error (HTTP 500)"),
        (status(501), Refused, "switched off (HTTP 501)"),
        (status(503), Unavailable, "not ready (HTTP 503)"),
        (badserver.page(b"<html>Sign in</html>"), Refused, "web page"),
        (badserver.page(b"\n <!DOCTYPE html>"), Refused, "web page"),
        (badserver.page(b'[{"iter": 1}]', kind="application/json"), Refused, "as TensorRT-LLM does"),
        (badserver.page(b"[]"), Refused, "as TensorRT-LLM does"),
        (badserver.page(b'{"a": 1', kind="application/json"), Refused, "as TensorRT-LLM does"),
        (badserver.page(b'{"a": 1}'), Refused, "as TensorRT-LLM does"),
        (badserver.page(b""), Unavailable, "empty page"),
        (badserver.drop, Unanswered, "closed the connection without an answer"),
        (badserver.no_http, Unavailable, "does not speak HTTP"),
        (badserver.false_zip, Unavailable, "says that it is gzip and is not"),
    ],
)
def test_each_misbehaviour_has_its_sentence(
    behaviour: badserver.Behaviour, kind: type[Unavailable], words: str
) -> None:
    found = failure(behaviour)
    assert words in found.reason
    assert type(found) is kind
    assert found.cure


@pytest.mark.parametrize("behaviour", [badserver.endless, badserver.zip_bomb])
def test_an_endless_page_is_given_up(behaviour: badserver.Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MAX_PAGE", 2**20)
    assert failure(behaviour).reason == "it answers with more than 1 MiB"


def test_a_chunk_of_negative_length_is_not_read_to_its_end() -> None:
    assert failure(badserver.endless_chunk).reason


def test_a_mislabelled_page_and_a_quoted_name_are_metrics() -> None:
    assert read(badserver.page(PAGE, kind="application/json")).text == PAGE
    assert read(badserver.page(b'{"a.b"} 1\n')).text == b'{"a.b"} 1\n'


def test_nothing_listening_is_said() -> None:
    with pytest.raises(Unavailable, match="connection refused"):
        Endpoint(badserver.dead_url()).read()


def test_a_name_that_no_dns_knows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> list[object]:
        raise wire.socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(wire.socket, "getaddrinfo", unknown)
    with pytest.raises(Unavailable, match="cannot be resolved"):
        Endpoint("http://nowhere.invalid:8000").read()


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(badserver.good) as server:

        def slow(*_: object, **__: object) -> list[object]:
            server.released.wait(5)
            return []

        monkeypatch.setattr(wire.socket, "getaddrinfo", slow)
        with pytest.raises(Unavailable, match=r"not resolved within 0\.1 s"):
            Endpoint("http://slow.invalid:8000", deadline_s=0.1).read()


def test_a_server_without_tls_is_said() -> None:
    with serving(badserver.good) as server, pytest.raises(Unavailable, match="TLS"):
        Endpoint(server.url.replace("http:", "https:")).read()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate of 127.0.0.1 with its key, signed by itself."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -addext subjectAltName=IP:127.0.0.1"
    )
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here")
    made = [*command.split(), "-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    subprocess.run(made, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


def test_tls_is_spoken_to_a_server_that_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(badserver.good, certificate=certificate) as server:
        endpoint = Endpoint(server.url)
        with pytest.raises(Unavailable, match="is not trusted"):
            endpoint.read()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert [endpoint.read().text for _ in range(2)] == [PAGE] * 2
        endpoint.close()


def test_the_deadline_holds_under_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    for behaviour in (badserver.hanging, badserver.trickling_body):
        with serving(behaviour, certificate=certificate) as server:
            endpoint = Endpoint(server.url, deadline_s=SHORT)
            with pytest.raises(Unavailable, match="no whole answer"):
                endpoint.read()


def test_a_redirect_is_named_and_never_followed() -> None:
    with serving(badserver.good) as elsewhere:
        behaviour = status(302, Location=f"{elsewhere.url}/metrics")
        found = failure(behaviour, api_key="k3y")
        assert elsewhere.requests == []
    assert elsewhere.url.removeprefix("http://") in found.reason
    assert "k3y" not in found.reason + found.cure


def test_a_redirect_cannot_colour_the_terminal_or_show_a_password() -> None:
    found = failure(status(302, Location="http://u:pass@host/\x1b[31mred"))
    assert "pass" not in found.reason + found.cure
    assert "\x1b" not in found.reason + found.cure


def test_the_key_goes_out_as_a_bearer_and_stays_out_of_names() -> None:
    with serving(badserver.good) as server:
        endpoint = Endpoint(server.url, api_key="k3y")
        endpoint.read()
        endpoint.close()
        assert server.requests[0][1]["Authorization"] == "Bearer k3y"
    assert "k3y" not in endpoint.name


def test_a_key_that_is_not_accepted_is_told_from_none() -> None:
    assert failure(status(401), api_key="k3y").reason == "it does not accept the key (HTTP 401)"


def test_credentials_in_the_url_are_used_and_masked() -> None:
    with serving(badserver.good) as server:
        endpoint = Endpoint(server.url.replace("//", "//user:p%40ss@"))
        endpoint.read()
        endpoint.close()
        assert server.requests[0][1]["Authorization"] == "Basic dXNlcjpwQHNz"
    assert endpoint.name == server.url.replace("//", "//***@") + "/metrics"


@pytest.mark.parametrize("key", ["", "two\nlines", "naïve"])
def test_a_key_that_no_header_carries_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(KvdoctorError) as caught:
        Endpoint("http://h:1", api_key=key)
    assert not key or key not in caught.value.message


def test_the_connection_is_kept_and_the_server_is_not_asked_to_compress() -> None:
    with serving(badserver.good) as server:
        endpoint = Endpoint(server.url)
        endpoint.read()
        kept = endpoint._wire and endpoint._wire._connection
        endpoint.read()
        assert endpoint._wire
        assert endpoint._wire._connection is kept
        endpoint.close()
        headers = server.requests[0][1]
    assert headers["Accept-Encoding"] == "identity"
    assert headers["Accept"] == "text/plain; version=0.0.4"


def test_a_connection_that_the_server_closed_is_opened_anew() -> None:
    with serving(badserver.once_per_connection) as server:
        endpoint = Endpoint(server.url)
        assert [endpoint.read().text for _ in range(3)] == [PAGE] * 3
        endpoint.close()


def test_of_the_documents_only_known_keys_are_kept() -> None:
    with serving(badserver.engine()) as server:
        endpoint = Endpoint(server.url)
        documents = endpoint.documents()
        endpoint.close()
        assert {path for path, _ in server.requests} == {"/version", "/v1/models"}
    assert documents["version"] == "0.32.0"
    assert json.loads(documents["models"]) == [{"id": "m", "root": "/m", "max_model_len": 4096}]


@pytest.mark.parametrize(
    "behaviour",
    [
        status(404),
        badserver.page(b"\xff{"),
        badserver.page(b"[" * 100_000),
        badserver.page(b'{"version": {}, "data": [1, {"id": []}]}'),
        badserver.drop,
        badserver.endless,
    ],
)
def test_documents_that_are_not_to_be_had_are_left_out(behaviour: badserver.Behaviour) -> None:
    with serving(behaviour) as server:
        endpoint = Endpoint(server.url)
        assert endpoint.documents() == {}
        endpoint.close()


def test_what_a_server_says_of_itself_is_kept_without_escape_sequences() -> None:
    said = page(b'{"version":"\\u001b]0;title\\u00071.0\\ud800"}')
    with serving(said) as server:
        endpoint = Endpoint(server.url)
        assert endpoint.documents() == {"version": "1.0?"}
        endpoint.close()
