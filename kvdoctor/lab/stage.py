"""A scene on the stage: the server and the load as processes, and everything of them gone in the end."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.lab import leftovers, quota, settings, wants
from kvdoctor.lab.scene import Scene, Shape
from kvdoctor.lab.tokenizer import SIZE

NEEDED = ("torch", "uvicorn", "starlette", "prometheus_client", "setproctitle")
MODEL = "lab"
_START_S = 60.0
_END_S = 15.0
_LINES = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Live:
    """A server under load."""

    pid: int
    url: str
    records: Path
    """What the clients saw, one JSON line a request."""
    read_bytes_per_s: float
    """What a plain read of memory reached before the server started."""
    end_load: Callable[[], None]
    """Ends the clients, so that their records are whole."""


def missing() -> tuple[str, ...]:
    """Packages that the lab needs and that are not installed."""
    return tuple(name for name in NEEDED if importlib.util.find_spec(name) is None)


def require() -> None:
    """Raises KvdoctorError with the line that installs what is missing."""
    if lacking := missing():
        raise KvdoctorError(
            f"the lab needs packages that are not installed: {', '.join(lacking)}",
            "pip install 'kvdoctor[demo]' (without a GPU, install PyTorch's CPU build first: it is far smaller)",
        )


@contextlib.contextmanager
def staged(scene: Scene, *, seed: int, say: Say) -> Iterator[Live]:
    """Start everything, warm it up, and end everything whatever happens. `say` takes progress."""
    with contextlib.ExitStack() as stack:
        leftovers.sweep()
        folder = stack.enter_context(leftovers.run_folder())
        note = folder / leftovers.CGROUP
        cgroup = stack.enter_context(quota.cpu_quota(scene.cpus, note=note)) if scene.cpus else None
        say("measuring how fast this machine reads memory")
        rate = read_rate()
        say("starting the server")
        model = write_model(folder, scene.shape)
        server, url = stack.enter_context(serving(model, scene, folder / "server.log"))
        if cgroup:
            quota.move(cgroup, server.pid)
        records = folder / "requests.jsonl"
        asked = wants.Wants(url, MODEL, seed, (scene.group, *scene.beside))
        clients = contextlib.ExitStack()
        stack.callback(clients.close)
        clients.enter_context(loading(asked, records))
        wait_warm(scene.warm_s, server, say)
        yield Live(server.pid, url, records, rate, clients.close)


def write_model(folder: Path, shape: Shape) -> Path:
    """A folder with the config.json of a shape, as a checkpoint has one."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.ffn,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "dtype": "float32",
        "vocab_size": SIZE,
    }
    path = folder / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def read_rate() -> float:
    """Bytes/s of a plain read, by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kvdoctor.lab.model"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    if done.returncode:
        raise KvdoctorError(f"memory could not be read: {_last(done.stderr)}", "python -m kvdoctor.lab.model")
    return float(json.loads(done.stdout)["read_bytes_per_s"])


@contextlib.contextmanager
def serving(model: Path, scene: Scene, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server that answers, and its URL."""
    port = _free_port()
    argv = [sys.executable, "-m", "kvdoctor.lab.server", "--model", str(model), "--port", str(port)]
    with log.open("wb") as output, _child(argv, output, output) as server:
        _send(server, settings.to_line(scene.settings))
        _wait_healthy(server, port, log)
        yield server, f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def loading(asked: wants.Wants, records: Path) -> Iterator[None]:
    """Clients at work; what they saw goes to a file."""
    argv = [sys.executable, "-m", "kvdoctor.lab.load"]
    with records.open("wb") as output, _child(argv, output, None) as clients:
        _send(clients, wants.to_line(asked))
        yield


def wait_warm(seconds: float, server: subprocess.Popen[bytes], say: Say) -> None:
    """Let the load run for a while. Raises KvdoctorError when the server ends."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        say(f"the load warms up: {left:.0f} s")
        time.sleep(min(0.5, left))
        if server.poll() is not None:
            raise KvdoctorError("the lab's server ended while it warmed up", "run it again, or report it")


@contextlib.contextmanager
def _child(argv: list[str], output: object, errors: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, so that Ctrl-C reaches us alone; it ends when its input closes."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=output,  # type: ignore[call-overload]
        stderr=errors,
        start_new_session=True,
        env=_environment(),
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its input and wait; kill the session where that does not help."""
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _send(process: subprocess.Popen[bytes], line: str) -> None:
    """Write one line to a process's input, and leave it open."""
    if process.stdin:
        process.stdin.write(line.encode())
        process.stdin.flush()


def _environment() -> dict[str, str]:
    """Ours, with one thread for torch: two cores have to do for server, clients and kvdoctor."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_healthy(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_S
    while not _healthy(port):
        if server.poll() is not None or time.monotonic() > end:
            last = _last(log.read_text(encoding="utf-8", errors="replace"))
            raise KvdoctorError(
                f"the lab's server did not start: {last}", "run it again on a quieter machine"
            )
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _last(text: str) -> str:
    """The last lines of a log, in one."""
    return " | ".join(text.strip().splitlines()[-_LINES:]) or "it said nothing"
