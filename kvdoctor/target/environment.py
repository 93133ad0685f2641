"""The environment of a process, of which only names on a list are kept."""

from __future__ import annotations

from kvdoctor.secrets import MASK, clean, mask_argv
from kvdoctor.target.process import Proc

PREFIXES = (
    "VLLM_",
    "SGLANG_",
    "SGL_",
    "TLLM_",
    "TRTLLM_",
    "LMCACHE_",
    "MOONCAKE_",
    "NIXL_",
    "UCX_",
    "DYN_",
    "LLAMA_ARG_",
)
NAMES = frozenset(
    (
        "ATTENTION",
        "CONDA_PREFIX",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HOME",
        "HOSTNAME",
        "HUGGINGFACE_HUB_CACHE",
        "LOCAL_RANK",
        "MAX_BATCH_TOTAL_TOKENS",
        "MODEL_ID",
        "NUM_SHARD",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "PORT",
        "PREFIX_CACHING",
        "PROMETHEUS_MULTIPROC_DIR",
        "VIRTUAL_ENV",
        "WORLD_SIZE",
        "XDG_CACHE_HOME",
    )
)
VALUE = 1000
"""Characters kept of a value."""


def environment(proc: Proc, pid: int) -> dict[str, str]:
    """Return the variables on the list with their secrets masked; empty when it may not be read.

    A process that has given itself a title may have written over a part of it.
    """
    found: dict[str, str] = {}
    for entry in (proc.read(pid, "environ") or b"").split(b"\0"):
        name, _, value = entry.decode("utf-8", "replace").partition("=")
        if value and (name in NAMES or name.startswith(PREFIXES)):
            masked = mask_argv((f"{name}={value[:VALUE]}",))[0].partition("=")[2]
            if masked != MASK:
                found[name] = clean(masked)
    return found
