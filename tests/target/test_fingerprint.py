"""Who is an engine, and who only talks of one."""

from __future__ import annotations

import pytest

from kvdoctor.engines import ENGINES
from kvdoctor.target.fingerprint import LABELS, STARTS, TITLES, recognise
from kvdoctor.target.serving import SERVING


@pytest.mark.parametrize(
    ("line", "engine", "role", "rank"),
    [
        ("/v/bin/python3 /v/bin/vllm serve m --port 1", "vllm", "api_server", ""),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", "api_server", ""),
        ("VLLM::EngineCore", "vllm", "engine_core", ""),
        ("VLLM::EngineCore_DP1", "vllm", "engine_core", "DP1"),
        ("VLLM::DPEngineCore_2", "vllm", "engine_core", "2"),
        ("prod-a::Worker_DP0_PP1_TP0_EP0", "vllm", "worker", "DP0_PP1_TP0_EP0"),
        ("VLLM::Worker", "vllm", "worker", ""),
        ("VLLM::APIServer_3", "vllm", "api_server", "3"),
        ("VLLM::DPCoordinator", "vllm", "coordinator", ""),
        ("ray::RayWorkerWrapper.execute_method", "vllm", "worker", ""),
        ("python3 -m sglang.launch_server --model-path m", "sglang", "api_server", ""),
        ("/v/bin/python /v/bin/sglang serve m", "sglang", "api_server", ""),
        ("sglang::scheduler_DP1_TP3", "sglang", "scheduler", "DP1_TP3"),
        ("sglang::scheduler", "sglang", "scheduler", ""),
        ("sglang::detokenizer", "sglang", "detokenizer", ""),
        ("sglang::data_parallel_controller", "sglang", "coordinator", ""),
        ("sglang::tokenizer_worker:4711", "sglang", "tokenizer", ""),
        ("sglang::http_server/x", "sglang", "api_server", ""),
        ("python /v/bin/trtllm-serve serve m --port 8000", "tensorrt_llm", "api_server", ""),
        ("python /v/bin/trtllm-serve m", "tensorrt_llm", "api_server", ""),
        ("text-generation-launcher --model-id m", "tgi", "launcher", ""),
        ("text-generation-router --port 80", "tgi", "router", ""),
        ("python /v/bin/text-generation-server serve m", "tgi", "worker", ""),
        ("python /v/bin/lmdeploy serve api_server m", "lmdeploy", "api_server", ""),
        ("/opt/llama/llama-server -m x.gguf --metrics", "llamacpp", "api_server", ""),
        ("python -m dynamo.frontend", "dynamo", "api_server", ""),
        ("python3 -m kvdoctor.lab.server --model m --port 1", "kvlab", "api_server", ""),
        ("kvlab::EngineCore", "kvlab", "engine_core", ""),
        ("python -m dynamo.vllm --model m", "vllm", "dynamo_worker", ""),
        ("python /v/bin/lmcache server --port 1", "lmcache", "store", ""),
        ("mooncake_master --metrics_port 9003", "mooncake", "store", ""),
        ("python /v/bin/transformers serve", "transformers", "api_server", ""),
    ],
)
def test_engines_are_recognised(line: str, engine: str, role: str, rank: str) -> None:
    found = recognise(line.split())
    assert found is not None
    assert (found.engine, found.role, found.rank) == (engine, role, rank)


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", "vllm serve m"],
        ["docker", "run", "vllm/vllm-openai", "vllm", "serve", "m"],
        ["sudo", "vllm", "serve", "m"],
        ["grep", "VLLM::EngineCore"],
        ["python3", "-c", "import vllm"],
        ["python3", "/v/bin/vllm", "bench", "serve"],
        ["python3", "/v/bin/vllm", "chat"],
        ["python3", "/v/bin/lmdeploy", "chat", "m"],
        ["vim", "vllm"],
        ["python3", "/home/u/vllm/loop.py", "serve"],
        ["tail", "-f", "sglang::scheduler"],
        [],
    ],
)
def test_who_only_names_an_engine_is_none(argv: list[str]) -> None:
    assert recognise(argv) is None


def test_every_engine_has_its_options_and_its_name() -> None:
    engines = {start.engine for start in STARTS} | {title.engine for title in TITLES}
    assert engines <= set(SERVING)
    assert engines <= set(LABELS)


def test_ports_and_paths_agree_with_the_adapters() -> None:
    for engine in ENGINES:
        known = SERVING.get(engine.name)
        if known is not None and engine.default_port:
            assert (known.default_port, known.metrics_path) == (engine.default_port, engine.metrics_path)
