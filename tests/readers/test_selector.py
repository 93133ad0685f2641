"""Selectors as PromQL has them: each that a server takes is taken, each that it refuses is refused in a sentence."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.errors import KvdoctorError
from kvdoctor.readers.selector import matchers

PROMETHEUS = shutil.which("prometheus")
VALID = {
    'job="vllm"': ('job="vllm"',),
    ' { job = "vllm" , } ': ('job="vllm"',),
    'pod=~"a{2}"': ('pod=~"a{2}"',),
    '{pod=~"a{2,3}",job!="x"}': ('pod=~"a{2,3}"', 'job!="x"'),
    'pod="a}"': ('pod="a}"',),
    'pod="{a"': ('pod="{a"',),
    "pod='a,b'": ("pod='a,b'",),
    'pod!~`a"{1}\\d`': ('pod!~`a"{1}\\d`',),
    'pod="a\\"b"': ('pod="a\\"b"',),
    'pod="a\\nb\\x41\\101\\u00e9\\U0001F600"': ('pod="a\\nb\\x41\\101\\u00e9\\U0001F600"',),
    'pod="é"': ('pod="é"',),
    'pod=""': ('pod=""',),
    'by="a", on="b"': ('by="a"', 'on="b"'),
    'pod="a",\n# the other\njob="b"': ('pod="a"', 'job="b"'),
    "pod=`a\nb`": ("pod=`a\nb`",),
    'pod="# no comment"': ('pod="# no comment"',),
}
INVALID = {
    "pod=vllm": "a value in quotes is due where it goes on with vllm",
    "pod": "one of =, !=, =~ and !~ is due at its end",
    "pod=": "a value in quotes is due at its end",
    'pod="a': 'a value in quotes is due where it goes on with "a',
    'pod="a\nb"': "a value in quotes is due",
    'pod="a\\d"': "a value in quotes is due",
    'pod="a\\\'"': "a value in quotes is due",
    'pod="\\400"': "a value in quotes is due",
    'pod="\\ud800"': "a value in quotes is due",
    'pod=="a"': "a value in quotes is due",
    'pod>"a"': "one of =, !=, =~ and !~ is due",
    'pod="a" job="b"': 'a comma or the end is due where it goes on with job="b"',
    'pod="a",,job="b"': "the name of a label is due",
    ',pod="a"': "the name of a label is due",
    '{pod="a"': "a comma or the closing brace is due at its end",
    '{pod="a" job="b"}': "a comma or the closing brace is due",
    'pod="a"}': "a comma or the end is due where it goes on with }",
    '{pod="a"}}': "it should have ended where it goes on with }",
    '{pod="a"}[5m]': "it should have ended",
    'pod:x="a"': "one of =, !=, =~ and !~ is due",
    '1pod="a"': "the name of a label is due",
    "{{}}": "the name of a label is due",
}


@pytest.mark.parametrize(("text", "found"), VALID.items())
def test_a_valid_selector_is_read_whatever_its_values_hold(text: str, found: tuple[str, ...]) -> None:
    assert matchers(text) == found


@pytest.mark.parametrize(("text", "said"), INVALID.items())
def test_an_invalid_selector_is_refused_and_the_place_is_said(text: str, said: str) -> None:
    with pytest.raises(KvdoctorError) as caught:
        matchers(text)
    assert "is no selector of PromQL" in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["", " ", "{}", "{ }", "# only a comment"])
def test_a_selector_without_matchers_selects_nothing(text: str) -> None:
    with pytest.raises(KvdoctorError, match="selects nothing"):
        matchers(text)


def test_names_in_quotes_are_those_of_newer_servers() -> None:
    assert matchers('{"a.b"="c"}') == ('"a.b"="c"',)
    assert matchers('{"vllm:num_requests_running", pod="a"}') == (
        '__name__="vllm:num_requests_running"',
        'pod="a"',
    )


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    with pytest.raises(KvdoctorError) as caught:
        matchers('pod=\x1b[31m"a" \udcff')
    assert "\x1b" not in caught.value.message
    caught.value.message.encode()


@given(st.text(alphabet="{}\",=~!`'\\ \nab#[]0é") | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = matchers(text)
    except KvdoctorError:
        return
    assert matchers(",".join(found)) == found


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here: apt-get install prometheus")
def test_a_real_server_takes_what_is_taken_and_refuses_what_is_refused(tmp_path) -> None:
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    log = (tmp_path / "log").open("wb")
    server = subprocess.Popen(
        [str(PROMETHEUS), f"--config.file={tmp_path / 'prometheus.yml'}",
         f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=log, stderr=log,
    )  # fmt: skip
    try:
        wait_ready(port)
        assert [text for text in VALID if not takes(port, ",".join(matchers(text)))] == []
        assert [text for text in INVALID if takes(port, text)] == []
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def wait_ready(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready").close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("prometheus did not start")


def takes(port: int, inner: str) -> bool:
    """Whether a server parses a selector beside a name; texts with braces of their own go as they are."""
    whole = inner if inner.startswith("{") else '{__name__=~".+",' + inner + "}"
    asked = urllib.parse.urlencode({"match[]": whole})
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/label/__name__/values?{asked}"
        ) as answer:
            return json.load(answer)["status"] == "success"
    except urllib.error.HTTPError as error:
        error.close()
        return False
