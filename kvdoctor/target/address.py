"""Where an engine's own metrics page is: from its flags, else its default port if it listens there. No other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.model import Gap
from kvdoctor.target.family import Family
from kvdoctor.target.flags import whole
from kvdoctor.target.namespaces import Namespaces, enter_network
from kvdoctor.target.process import Proc
from kvdoctor.target.program import as_root, program
from kvdoctor.target.serving import SERVING, WORKER_PORT, Serving
from kvdoctor.target.sockets import Listener, listeners, user_listens
from kvdoctor.target.words import Options

SOURCE = "metrics"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Page:
    """A metrics page, or why there is none to read."""

    url: str | None = None
    """As the process's own network namespace sees it."""
    readable: bool = False
    """Whether it may be read from here, unasked."""
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of a family before its address is."""

    proc: Proc
    family: Family
    options: Options
    environment: Mapping[str, str]
    place: Namespaces
    same_user: bool

    @property
    def serving(self) -> Serving:
        """Its engine's options."""
        return SERVING[self.family.engine]


def find_page(ask: Question) -> Page:
    """Return the page of a family. A page that may not be read comes with a gap that says how it can be."""
    serving = ask.serving
    if not serving.metrics_path:
        return _without("this engine has no metrics page", "")
    if _root_role(ask) == "program":
        return _without(
            "the engine runs inside a program of the user's own", "give its metrics page: --url URL"
        )
    path = ask.options.value(*serving.unix) if serving.unix else None
    host = ask.options.value(*serving.host) or ""
    path = path or (host if host.endswith(".sock") else None)
    if path:
        return _unix(path)
    off = _switched_off(ask)
    if off is not None:
        return off
    port, flagged = _port(ask)
    if not port:
        return _without(
            "it was given no port to serve metrics on", f"start it with {WORKER_PORT}=8081 in its environment"
        )
    return _at(ask, host, port, flagged)


def _without(reason: str, cure: str) -> Page:
    return Page(gaps=(Gap(SOURCE, reason, cure),))


def _unix(path: str) -> Page:
    cure = (
        f"socat TCP-LISTEN:8000,bind=127.0.0.1,fork UNIX-CONNECT:{path} & "
        f"{program()} diagnose --url http://127.0.0.1:8000"
    )
    return _without(f"it serves on the Unix socket {path}; metrics are read over TCP", cure)


def _switched_off(ask: Question) -> Page | None:
    serving = ask.serving
    is_worker = _is_dynamo_worker(ask)
    off = next((name for name in serving.off if ask.options.has(name)), None)
    if off:
        return _without(f"it runs with --{off}: no metrics", f"start it without --{off}")
    on = ask.options.has(*serving.needs) or bool(ask.environment.get(serving.needs_env))
    if serving.needs and not on and not is_worker:
        return _without(
            f"it runs without --{serving.needs[0]}: no metrics", f"start it with --{serving.needs[0]}"
        )
    return None


def _is_dynamo_worker(ask: Question) -> bool:
    return _root_role(ask) == "dynamo_worker"


def _root_role(ask: Question) -> str:
    root = ask.family.member(ask.family.root)
    return root.role if root is not None else ""


def _port(ask: Question) -> tuple[int | None, bool]:
    """Return the port, and whether somebody set it."""
    if _is_dynamo_worker(ask):
        return whole(ask.environment.get(WORKER_PORT)), True
    told = [ask.options.value(name) for name in ask.serving.port]
    told += [ask.environment.get(name) for name in ask.serving.port_env]
    port = next((number for number in map(whole, told) if number and number < 65536), None)
    return (port, True) if port else (ask.serving.default_port, False)


def _at(ask: Question, host: str, port: int, flagged: bool) -> Page:
    family, serving = ask.family, ask.serving
    fronts = [m.pid for m in family.members if m.role in serving.fronts or m.pid == family.root]
    looked = any(ask.proc.may_look(pid) for pid in fronts)
    found = listeners(ask.proc, fronts, port) if looked else ()
    if looked and not found:
        which = "the port it was given" if flagged else "its engine's default port"
        cure = "wait until it has started, or give the address: --url http://HOST:PORT"
        return _without(f"it does not listen on port {port}, {which}", cure)
    if not looked and not (flagged and _somebody_listens(ask, port)):
        cure = as_root(f"{program()} diagnose --pid {family.root}")
        return _without(f"whether it listens on port {port} may not be seen by this user", cure)
    return _decide(ask, _url(ask, host, port, found))


def _somebody_listens(ask: Question, port: int) -> bool:
    """Say whether the process's user listens at the port it was given: no proof, but its own statement agrees."""
    root = ask.family.member(ask.family.root)
    return root is not None and user_listens(ask.proc, root.pid, root.uid, port)


def _url(ask: Question, host: str, port: int, found: tuple[Listener, ...]) -> str:
    options, serving = ask.options, ask.serving
    tls = any(all(options.has(name) for name in group) for group in serving.tls)
    if found and not (tls and host not in _WILDCARDS):
        host = found[0].connect_to
    else:
        host = _WILDCARDS.get(host or serving.default_host, host or serving.default_host)
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    base = (options.value(*serving.base) or "").strip("/") if serving.base else ""
    scheme = "https" if tls else "http"
    return f"{scheme}://{host}:{port}{'/' + base if base else ''}{serving.metrics_path}"


def _decide(ask: Question, url: str) -> Page:
    """Say whether a page may be read from here, unasked."""
    if ask.serving.resets:
        cure = f"{program()} diagnose --pid {ask.family.root} --url {url}"
        reason = f"{url} was not read unasked: {ask.serving.resets}"
        return Page(url, False, (Gap(SOURCE, reason, cure),))
    if "net" in ask.place.differ:
        command = f"{program()} diagnose --pid {ask.family.root}"
        cure = enter_network(ask.place, command, same_user=ask.same_user)
        reason = f"{url} is in the process's own network namespace, where we are not"
        return Page(url, False, (Gap(SOURCE, reason, cure),))
    if "net" in ask.place.unknown:
        cure = as_root(f"{program()} diagnose --pid {ask.family.root}")
        reason = f"whether {url} is in our network namespace may not be seen by this user"
        return Page(url, False, (Gap(SOURCE, reason, f"{cure}, or give it: --url {url}"),))
    return Page(url, True)
