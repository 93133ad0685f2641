"""Where each engine says what it serves: its options for address, TLS, metrics, ranks and memory, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

Names = tuple[str, ...]

_TP = ("tensor-parallel-size", "tp", "tp-size")
_PP = ("pipeline-parallel-size", "pp", "pp-size")
_DP = ("data-parallel-size", "dp", "dp-size")
_SSL = (("ssl-keyfile", "ssl-certfile"),)


@dataclass(frozen=True, slots=True)
class Serving:
    """One engine's options; names without dashes, in the order in which they are looked at."""

    default_port: int
    """0 where there is none: without a port option nothing is read."""
    metrics_path: str = "/metrics"
    """Empty for an engine without a metrics page."""
    fronts: Names = ("api_server",)
    """Roles of the processes that may hold the HTTP socket."""
    host: Names = ("host",)
    default_host: str = "0.0.0.0"
    port: Names = ("port",)
    port_env: Names = ()
    base: Names = ()
    """Options for a path in front of every page."""
    unix: Names = ("uds",)
    tls: tuple[Names, ...] = ()
    """TLS is on when all options of one of these groups are given."""
    needs: Names = ()
    """The options of which one switches the metrics page on; empty where it is on by itself."""
    needs_env: str = ""
    off: Names = ()
    """Options that switch it off."""
    resets: str = ""
    """What a reading of the page takes away from others; then it is read only when asked for by URL."""
    model: Names = ("model",)
    model_env: str = ""
    facts: dict[str, Names] = field(default_factory=dict)
    """Facts that are an option's value."""


VLLM = Serving(
    default_port=8000,
    # VLLM_PORT is a port for the engine's own processes, so no variable counts here. Started with
    # --root-path the server answers at /metrics as well as below that path, and always did at /metrics.
    tls=_SSL,
    off=("disable-log-stats",),
    facts={
        "tp": _TP,
        "pp": _PP,
        "dp": _DP,
        "block_size": ("block-size",),
        "kv_dtype": ("kv-cache-dtype",),
        "dtype": ("dtype",),
        "quantization": ("quantization", "q"),
        "gpu_memory_utilization": ("gpu-memory-utilization", "device-memory-utilization"),
        "max_model_len": ("max-model-len",),
        "max_num_seqs": ("max-num-seqs",),
        "max_num_batched_tokens": ("max-num-batched-tokens",),
        "num_gpu_blocks_override": ("num-gpu-blocks-override",),
        "kv_offloading_size": ("kv-offloading-size",),
        "cpu_offload_gb": ("cpu-offload-gb",),
        "swap_space": ("swap-space",),
        "served_model_name": ("served-model-name",),
        "api_server_count": ("api-server-count", "asc"),
    },
)
SGLANG = Serving(
    default_port=30000,
    default_host="127.0.0.1",
    tls=_SSL,
    needs=("enable-metrics",),
    model=("model-path", "model"),
    facts={
        "tp": _TP,
        "pp": _PP,
        "dp": _DP,
        "block_size": ("page-size",),
        "kv_dtype": ("kv-cache-dtype",),
        "dtype": ("dtype",),
        "quantization": ("quantization",),
        "gpu_memory_utilization": ("mem-fraction-static",),
        "max_model_len": ("context-length",),
        "max_num_seqs": ("max-running-requests",),
        "max_num_batched_tokens": ("chunked-prefill-size",),
        "kv_offloading_size": ("hicache-size",),
        "kv_role": ("disaggregation-mode",),
        "speculative": ("speculative-algorithm",),
        "served_model_name": ("served-model-name",),
    },
)
SERVING: dict[str, Serving] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "tensorrt_llm": Serving(
        default_port=8000,
        metrics_path="/prometheus/metrics",  # its /metrics is JSON that a reading drains
        default_host="localhost",
        facts={
            "tp": _TP,
            "pp": _PP,
            "block_size": ("tokens-per-block",),
            "kv_dtype": ("kv-cache-dtype",),
            "gpu_memory_utilization": ("kv-cache-free-gpu-memory-fraction", "free-gpu-memory-fraction"),
            "max_model_len": ("max-seq-len",),
            "max_num_seqs": ("max-batch-size",),
            "max_num_batched_tokens": ("max-num-tokens",),
        },
    ),
    "tgi": Serving(
        default_port=3000,
        fronts=("router", "launcher"),
        host=("hostname",),
        port=("port", "p"),
        port_env=("PORT",),
        model=("model-id",),
        model_env="MODEL_ID",
        facts={
            "tp": ("num-shard",),
            "kv_dtype": ("kv-cache-dtype",),
            "dtype": ("dtype",),
            "quantization": ("quantize",),
            "gpu_memory_utilization": ("cuda-memory-fraction",),
            "max_model_len": ("max-total-tokens",),
            "max_num_seqs": ("max-batch-size",),
            "max_num_batched_tokens": ("max-batch-prefill-tokens",),
        },
    ),
    "lmdeploy": Serving(
        default_port=23333,
        host=("server-name",),
        port=("server-port",),
        off=("disable-metrics",),
        tls=(("ssl",),),
        model=("model-path",),
        facts={
            "tp": ("tp",),
            "dp": ("dp",),
            "block_size": ("cache-block-seq-len",),
            "dtype": ("dtype",),
            "gpu_memory_utilization": ("cache-max-entry-count",),
            "max_model_len": ("session-len",),
            "max_num_seqs": ("max-batch-size",),
            "max_num_batched_tokens": ("max-prefill-token-num",),
            "served_model_name": ("model-name",),
        },
    ),
    "llamacpp": Serving(
        default_port=8080,
        default_host="127.0.0.1",
        port_env=("LLAMA_ARG_PORT",),
        base=("api-prefix",),
        tls=(("ssl-key-file", "ssl-cert-file"),),
        needs=("metrics",),
        needs_env="LLAMA_ARG_ENDPOINT_METRICS",
        resets="its rates cover the time since the last reading by anybody",
        model=("model", "m"),
        model_env="LLAMA_ARG_MODEL",
        facts={
            "kv_dtype": ("cache-type-k", "ctk"),
            "max_model_len": ("ctx-size", "c"),
            "max_num_seqs": ("parallel", "np"),
            "max_num_batched_tokens": ("batch-size", "b"),
            "served_model_name": ("alias", "a"),
        },
    ),
    "dynamo": Serving(
        default_port=8000,
        host=("http-host",),
        port=("http-port",),
        port_env=("DYN_HTTP_PORT",),
        fronts=("api_server", "router"),
    ),
    "lmcache": Serving(
        default_port=8080,
        default_host="127.0.0.1",
        fronts=("store",),
        host=("http-host",),
        port=("http-port",),
    ),
    "mooncake": Serving(default_port=9003, fronts=("store",), host=(), port=("metrics-port",)),
    "transformers": Serving(default_port=8000, metrics_path=""),
    "kvlab": Serving(
        default_port=8000,
        default_host="127.0.0.1",
        facts={"served_model_name": ("served-model-name",)},
    ),
    "torch": Serving(default_port=0, metrics_path="", fronts=()),
    "process": Serving(default_port=0, metrics_path="", fronts=()),
}

WORKER_PORT = "DYN_SYSTEM_PORT"
"""Dynamo's variable for the metrics port of a worker; without it there is none."""
