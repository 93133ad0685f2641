"""Run by test_triton.py in a process of its own: compile a kernel ahead of time and tell what its machine code does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvdoctor.reference.triton_decode import _STAGES, _TILE, _WARPS, split_kernel

POINTERS = {
    "q_ptr": "bf16",
    "tables_ptr": "i32",
    "lengths_ptr": "i32",
    "acc_ptr": "fp32",
    "most_ptr": "fp32",
    "total_ptr": "fp32",
}
# stored keys and values, their scales, and the kernel's number of the format
STORED = {
    "bf16": ("bf16", "bf16", 0),
    "fp8": ("u8", "u8", 1),
    "int8": ("i8", "fp32", 2),
    "int4": ("u8", "fp16", 3),
}
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


def compiled(capability: int, kv: str, page: int, dim: int, aligned: bool):
    """The kernel for one architecture; `aligned` is what a launch finds of strides divisible by 16."""
    stored, scales, kind = STORED[kv]
    width = dim // 2 if kv == "int4" else dim
    constants = {
        "GROUP": 4,
        "PADDED": 16,
        "WIDTH": width,
        "WIDE": width,
        "PAGE": page,
        "TILE": max(_TILE, page),
        "SPLITS": 8,
        "KIND": kind,
        "DOT": tl.bfloat16,
    }
    pointers = POINTERS | {"k_ptr": stored, "v_ptr": stored, "ks_ptr": scales, "vs_ptr": scales}
    names = split_kernel.arg_names
    types = {name: "constexpr" if name in constants else "i32" for name in names}
    types |= {name: f"*{kind}" for name, kind in pointers.items()} | {"scale": "fp32"}
    strides = ["q_row", "block_stride", "head_stride", "scale_block", "scale_head"] if aligned else []
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in (*pointers, *strides)}
    source = ASTSource(split_kernel, types, {(names.index(n),): v for n, v in constants.items()}, attributes)
    return triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": _WARPS, "num_stages": _STAGES}
    )


def told(kernel) -> dict[str, int]:
    """What the machine code holds: loads by width, tensor-core products, spills, registers, shared memory."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        code = subprocess.run(
            [TOOLS / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
        usage = subprocess.run(
            [TOOLS / "cuobjdump", "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = {key: int(re.search(rf"{key}:(\d+)", usage)[1]) for key in ("REG", "STACK", "LOCAL")}
    return found | {
        "async16": len(re.findall(r"LDGSTS\S*\.128", code)),
        "wide": len(re.findall(r"LDG\S*\.128", code)),
        "narrow": len(re.findall(r"LDG\S*\.U?[SU]?(?:8|16)\b", code)),
        "products": len(re.findall(r"\b(?:HMMA|UTCHMMA|HGMMA|UTCQMMA)", code)),
        "shared": kernel.metadata.shared,
    }


print(json.dumps(told(compiled(*json.loads(sys.argv[1])))))  # noqa: T201
