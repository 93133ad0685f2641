"""Triton kernels without a GPU: right under the interpreter, and compiled to wide loads and tensor cores.

Each in processes of their own: one process either interprets or compiles. KVDOCTOR_TRITON_PYTHON names a Python that
has torch and Triton (and NumPy below 2.4, which the interpreter needs) where this one has not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PYTHON = os.environ.get("KVDOCTOR_TRITON_PYTHON", sys.executable)
LIMIT_S = 600


@lru_cache(maxsize=1)
def has_triton() -> bool:
    code = "import importlib.util as u, sys; sys.exit(not (u.find_spec('torch') and u.find_spec('triton')))"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


pytestmark = pytest.mark.skipif(not has_triton(), reason="no Python with triton")


def answer(script: str, argument: object, **settings: str):
    """What a script prints as JSON."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TRITON_DEFAULT_FP_FUSION": "1", **settings}
    done = subprocess.run(
        [PYTHON, "-B", str(HERE / script), json.dumps(argument)],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


# group, page, KV dtype, head size, window, splits
CASES = [
    (1, 16, "fp32", 32, 0, 1),
    (4, 16, "fp32", 64, 0, 4),
    (7, 32, "fp32", 32, 0, 2),
    (8, 64, "fp32", 32, 0, 4),
    (4, 16, "fp32", 32, 50, 2),
    (4, 16, "fp32", 48, 0, 2),
    (4, 16, "bf16", 64, 0, 2),
    (8, 32, "fp16", 64, 9, 2),
    (4, 16, "fp8", 64, 0, 2),
    (4, 16, "int8", 32, 0, 2),
    (7, 32, "int4", 64, 0, 2),
]


def test_the_kernels_agree_with_float64_over_shuffled_pages_and_empty_rows():
    errors = answer("interpret_triton.py", CASES, TRITON_INTERPRET="1")
    assert {case: error for case, error in zip(CASES, errors, strict=True) if error > 5e-6} == {}


@lru_cache
def code(capability: int, kv: str = "bf16", page: int = 16, dim: int = 128, aligned: bool = True):
    return answer("compile_triton.py", (capability, kv, page, dim, aligned))


# Shared memory of a block, bytes: the least of the architectures below (sm_120; CUDA C programming guide).
SHARED = 99 * 1024


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_it_compiles_to_wide_asynchronous_loads_and_tensor_cores_without_spills(capability):
    found = code(capability)
    assert found["async16"] >= 16
    assert found["narrow"] == 0
    assert found["products"] > 0
    assert (found["STACK"], found["LOCAL"]) == (0, 0)
    assert found["shared"] <= SHARED


@pytest.mark.parametrize("kv", ["fp8", "int8", "int4"])
def test_narrow_kv_keeps_wide_loads_and_tensor_cores(kv):
    found = code(90, kv)
    assert found["async16"] > 0
    assert found["products"] > 0
    assert (found["STACK"], found["LOCAL"]) == (0, 0)


def test_without_strides_divisible_by_16_the_wide_loads_are_gone():
    """The control: what the other tests must notice."""
    found = code(90, aligned=False)
    assert (found["async16"], found["wide"]) == (0, 0)
    assert found["narrow"] > 100
