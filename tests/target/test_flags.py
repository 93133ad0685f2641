"""What a command line says that changes a reading."""

from __future__ import annotations

import pytest

from kvdoctor.target.flags import flag_facts, unread_settings, whole
from kvdoctor.target.words import options


@pytest.mark.parametrize(
    ("engine", "line", "facts"),
    [
        ("vllm", "m -tp 4 -pp=2 --data-parallel-size 8", {"tp": "4", "pp": "2", "dp": "8"}),
        ("vllm", "m --kv-cache-dtype fp8 --block-size 32", {"kv_dtype": "fp8", "block_size": "32"}),
        (
            "vllm",
            "m --max-num-seqs 256 --max_num_batched_tokens 8k --max-model-len 128K",
            {"max_num_seqs": "256", "max_num_batched_tokens": "8000", "max_model_len": "131072"},
        ),
        ("vllm", "m --no-enable-prefix-caching", {"prefix_caching": "false"}),
        ("vllm", "m --enable-prefix-caching", {"prefix_caching": "true"}),
        (
            "vllm",
            "m --gpu-memory-utilization 0.9 -q fp8",
            {"gpu_memory_utilization": "0.9", "quantization": "fp8"},
        ),
        (
            "vllm",
            '--kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer"}',
            {"kv_connector": "NixlConnector", "kv_role": "kv_producer"},
        ),
        ("vllm", '--kv-transfer-config {"kv_connector":7}', {}),
        (
            "vllm",
            '--speculative-config {"method":"eagle3","num_speculative_tokens":3}',
            {"speculative": "eagle3", "speculative_tokens": "3"},
        ),
        ("vllm", "m --max-num-seqs auto --tensor-parallel-size x", {}),
        ("vllm", "m", {}),
        (
            "sglang",
            "--tp 8 --page-size 64 --mem-fraction-static 0.85 --chunked-prefill-size 8192 --max-running-requests 128",
            {
                "tp": "8",
                "block_size": "64",
                "gpu_memory_utilization": "0.85",
                "max_num_batched_tokens": "8192",
                "max_num_seqs": "128",
            },
        ),
        ("sglang", "--disable-radix-cache", {"prefix_caching": "false"}),
        (
            "sglang",
            "--enable-hierarchical-cache --hicache-storage-backend mooncake",
            {"kv_connector": "hicache mooncake"},
        ),
        ("tensorrt_llm", "m --tp_size 2 --max_batch_size 64", {"tp": "2", "max_num_seqs": "64"}),
        (
            "tgi",
            "--num-shard 2 --max-batch-prefill-tokens 4096",
            {"tp": "2", "max_num_batched_tokens": "4096"},
        ),
        ("lmdeploy", "m --quant-policy 8 --tp 2", {"tp": "2", "kv_dtype": "int8"}),
        (
            "llamacpp",
            "-c 8192 -np 4 -ctk q8_0",
            {"max_model_len": "8192", "max_num_seqs": "4", "kv_dtype": "q8_0"},
        ),
    ],
)
def test_facts_of_a_command_line(engine: str, line: str, facts: dict[str, str]) -> None:
    assert flag_facts(engine, options(line.split())) == facts


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("2k", 2000),
        ("2K", 2048),
        ("1.5k", 1500),
        ("1.5", None),
        ("-1", None),
        ("0", None),
        ("nan", None),
    ],
)
def test_counts_as_engines_take_them(text: str, number: int | None) -> None:
    assert whole(text) == number


def test_infinity_is_no_count() -> None:
    assert whole("inf") is None
    assert whole(None) is None
    assert whole("") is None


def test_a_settings_file_is_a_gap() -> None:
    (gap,) = unread_settings("vllm", options(["m", "--config", "/etc/vllm.yaml"]))
    assert "/etc/vllm.yaml" in gap.reason
    assert unread_settings("vllm", options(["m"])) == ()
