"""A real lab server: what clients, strangers and /proc see of it."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kvdoctor.lab import stage
from kvdoctor.lab.faults import chosen, scene_of
from kvdoctor.lab.scene import Scene
from kvdoctor.target.look import look

pytestmark = pytest.mark.skipif(bool(stage.missing()), reason=f"not installed: {', '.join(stage.missing())}")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A server with a secret setting, for all tests here: its pid and URL."""
    folder = tmp_path_factory.mktemp("lab")
    scene = scene_of(chosen("kv-lookup"), seed=1).set(index_held_s=0.001, pool_blocks=64)
    with stage.serving(stage.write_model(folder, Scene().shape), scene, folder / "log") as (server, url):
        yield server.pid, url


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def complete(url, **body):
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_a_completion_counts_its_tokens_and_the_same_prompt_hits(live):
    _, url = live
    prompt = " ".join(["ban", "cer"] * 24)
    first = json.loads(complete(url, prompt=prompt, max_tokens=3))
    again = json.loads(complete(url, prompt=prompt, max_tokens=3))
    assert first["choices"][0]["finish_reason"] == "length"
    assert first["choices"][0]["text"] == again["choices"][0]["text"]
    assert (first["usage"]["prompt_tokens"], first["usage"]["completion_tokens"]) == (48, 3)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 32


def test_a_stream_gives_a_token_an_event_then_the_usage_then_done(live):
    _, url = live
    text = complete(url, prompt=[1, 2, 3], max_tokens=4, stream=True, stream_options={"include_usage": True})
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    bodies = [json.loads(event) for event in events[:-1]]
    assert [len(body["choices"]) for body in bodies] == [1, 1, 1, 1, 0]
    assert bodies[-1]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ""},
        {"prompt": [-1]},
        {"prompt": "ban", "max_tokens": 0},
        {"prompt": "ban", "max_tokens": 9999},
    ],
)
def test_what_cannot_be_completed_is_refused_with_a_reason(live, body):
    with pytest.raises(urllib.error.HTTPError) as error:
        complete(live[1], **body)
    assert error.value.code == 400
    assert json.loads(error.value.read())["error"]["message"]


def test_a_client_that_leaves_frees_its_place(live):
    _, url = live
    body = json.dumps({"prompt": [5] * 64, "max_tokens": 900, "stream": True}).encode()
    answer = urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body), timeout=60)
    answer.readline()
    answer.close()
    end = time.monotonic() + 20
    while 'num_requests_running{engine="0",model_name="lab"} 0.0' not in get(f"{url}/metrics"):
        assert time.monotonic() < end, "the request still runs"
        time.sleep(0.1)


def test_a_stranger_finds_it_by_pid_with_its_engine_core_and_page(live):
    pid, url = live
    target = look().at(pid)
    assert target is not None
    assert target.family.engine == "kvlab"
    assert {member.role for member in target.family.members} == {"api_server", "engine_core"}
    assert (target.page.url, target.page.readable) == (f"{url}/metrics", True)
    assert "model_config" in dict(target.facts)


def test_no_setting_shows_in_proc_or_in_the_metrics(live):
    pid, url = live
    shown = get(f"{url}/metrics")
    for member in look().at(pid).family.members:
        for name in ("cmdline", "environ", "comm"):
            shown += Path(f"/proc/{member.pid}/{name}").read_text(errors="replace")
    for secret in ("index_held", "ranking_s", "park_s", "kv-lookup", "kv_lookup"):
        assert secret not in shown


def test_the_server_and_its_core_are_gone_in_the_end(tmp_path):
    model = stage.write_model(tmp_path, Scene().shape)
    with stage.serving(model, Scene(), tmp_path / "log") as (server, _):
        pids = [member.pid for member in look().at(server.pid).family.members]
        assert len(pids) == 2
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
