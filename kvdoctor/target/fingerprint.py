"""How each engine shows in a process list: the words of its command line, and the titles it gives its processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvdoctor.target.words import Command, command


@dataclass(frozen=True, slots=True)
class Match:
    """What one process is."""

    engine: str
    role: str
    rank: str = ""
    by_title: bool = False
    """True for a process that an engine started and named."""


@dataclass(frozen=True, slots=True)
class Start:
    """A way to start an engine: a program, and the first of its other words where that matters."""

    program: str
    engine: str
    role: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Title:
    """A title that an engine gives one of its processes; the group `rank` is its place."""

    pattern: re.Pattern[str]
    engine: str
    role: str


STARTS = (
    Start("vllm", "vllm", "api_server", ("serve",)),
    Start("vllm.entrypoints.cli.main", "vllm", "api_server", ("serve",)),
    Start("vllm.entrypoints.openai.api_server", "vllm", "api_server"),
    Start("vllm.entrypoints.api_server", "vllm", "api_server"),
    Start("vllm-rs", "vllm", "api_server"),
    Start("sglang", "sglang", "api_server", ("serve",)),
    Start("sglang.launch_server", "sglang", "api_server"),
    Start("sglang_router.launch_router", "sglang", "router"),
    Start("trtllm-serve", "tensorrt_llm", "api_server"),
    Start("tensorrt_llm.commands.serve", "tensorrt_llm", "api_server"),
    Start("text-generation-launcher", "tgi", "launcher"),
    Start("text-generation-router", "tgi", "router"),
    Start("text-generation-server", "tgi", "worker", ("serve",)),
    Start("lmdeploy", "lmdeploy", "api_server", ("serve", "api_server")),
    Start("llama-server", "llamacpp", "api_server"),
    Start("dynamo.frontend", "dynamo", "api_server"),
    Start("dynamo.router", "dynamo", "router"),
    Start("dynamo.vllm", "vllm", "dynamo_worker"),
    Start("dynamo.sglang", "sglang", "dynamo_worker"),
    Start("dynamo.trtllm", "tensorrt_llm", "dynamo_worker"),
    Start("lmcache", "lmcache", "store", ("server",)),
    Start("lmcache_server", "lmcache", "store"),
    Start("lmcache.v1.multiprocess.server", "lmcache", "store"),
    Start("lmcache.v1.multiprocess.http_server", "lmcache", "store"),
    Start("mooncake_master", "mooncake", "store"),
    Start("mooncake_client", "mooncake", "store"),
    Start("transformers", "transformers", "api_server", ("serve",)),
    Start("transformers-cli", "transformers", "api_server", ("serve",)),
    Start("kvdoctor.lab.server", "kvlab", "api_server"),
)
"""Field guide, "Recognise it" of each engine. A subcommand counts: `vllm bench` serves nobody."""

# vLLM's prefix can be changed by VLLM_PROCESS_NAME_PREFIX, so its roles are matched under any prefix.
_RANKED = r"(?:_(?P<rank>\w+))?$"
TITLES = (
    Title(re.compile(r"^sglang::http_server"), "sglang", "api_server"),
    Title(re.compile(r"^sglang::scheduler" + _RANKED), "sglang", "scheduler"),
    Title(re.compile(r"^sglang::detokenizer(?:_router)?(?::\d+)?$"), "sglang", "detokenizer"),
    Title(re.compile(r"^sglang::tokenizer_worker(?::\d+)?$"), "sglang", "tokenizer"),
    Title(re.compile(r"^sglang::data_parallel_controller$"), "sglang", "coordinator"),
    Title(re.compile(r"^kvlab::EngineCore$"), "kvlab", "engine_core"),
    Title(re.compile(r"^[\w.-]+::APIServer" + _RANKED), "vllm", "api_server"),
    Title(re.compile(r"^[\w.-]+::EngineCore" + _RANKED), "vllm", "engine_core"),
    Title(re.compile(r"^[\w.-]+::DPEngineCore" + _RANKED), "vllm", "engine_core"),
    Title(re.compile(r"^[\w.-]+::DPCoordinator" + _RANKED), "vllm", "coordinator"),
    Title(re.compile(r"^[\w.-]+::Worker" + _RANKED), "vllm", "worker"),
    Title(re.compile(r"^ray::RayWorker(?:Wrapper|Proc)\b"), "vllm", "worker"),
)

LABELS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tensorrt_llm": "TensorRT-LLM",
    "tgi": "text-generation-inference",
    "lmdeploy": "LMDeploy",
    "llamacpp": "llama.cpp",
    "dynamo": "Dynamo",
    "lmcache": "LMCache",
    "mooncake": "Mooncake",
    "transformers": "transformers serve",
    "kvlab": "kvdoctor's lab",
    "torch": "torch process",
    "process": "process",
}
"""Names for people."""

STORES = frozenset(("lmcache", "mooncake"))
"""KV layers: they serve an engine, not users."""


def recognise(argv: Sequence[str]) -> Match | None:
    """Say what a process is from its command line or its title; None for anything else.

    A shell, `docker run` or `sudo` whose words hold an engine's name is no engine: the program itself counts.
    """
    if not argv:
        return None
    for title in TITLES:
        found = title.pattern.match(argv[0].strip())
        if found:
            rank = (found.groupdict().get("rank") or "") if title.pattern.groups else ""
            return Match(title.engine, title.role, rank, by_title=True)
    words = command(argv)
    return _started(words) if words is not None else None


def _started(words: Command) -> Match | None:
    for start in STARTS:
        if words.program == start.program and _begins(words.rest, start.words):
            return Match(start.engine, start.role)
    return None


def _begins(rest: Sequence[str], wanted: Sequence[str]) -> bool:
    """Compare the first words that are no options."""
    plain = [word for word in rest if not word.startswith("-")]
    return tuple(plain[: len(wanted)]) == tuple(wanted)
