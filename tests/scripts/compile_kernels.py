"""Compiles Triton's kernels for a Hopper GPU, which need not be there, in every storage of the weights.

A process of its own: the tests run the kernels in Triton's interpreter, which takes what the
compiler refuses.
"""

import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sparsegate.optimizers import kernels as step_kernels
from sparsegate.runtime.cuda import (
    chunk_kernels as triton_chunk_kernels,
)
from sparsegate.runtime.cuda import (
    conv_kernels as triton_conv_kernels,
)
from sparsegate.runtime.cuda import (
    kernels as triton_kernels,
)
from sparsegate_lab.data import triton_view_kernels

COLUMNS = ("*i32", "*i32", "*i16", "*i32")
FLOATS = ("*bf16", "*fp16", "*fp32", "*fp32")
LAYER = {"RELU": True, "WIDTH": 16, "NUM_BANDS": 8, "EARLY": True, "ROWS": 2}
VIEW = {
    "MIRROR": True,
    "HEIGHT": 160,
    "WIDTH": 160,
    "ROWS": 224,
    "COLUMNS": 224,
    "TAPS": 2,
    "BLOCK": 1024,
}
CHUNKS = {
    "RELU": True,
    "SIDE": 4,
    "THREADS": 128,
    "ROWS": 16,
    "SHARED": 512,
    "TAIL": 36,
    "EARLY": True,
}
KERNELS = (
    (
        triton_chunk_kernels.linear_chunks,
        CHUNKS | {"EACH": 12, "SLOTS": 16, "FAR": 2, "LANES": 8, "NEAR": 1},
    ),
    (
        triton_chunk_kernels.linear_chunks,
        CHUNKS | {"EACH": 4, "SLOTS": 4, "FAR": 1, "LANES": 8, "NEAR": 4},
    ),
    (triton_kernels.linear_one, LAYER | {"SHARED": 0, "STEP": 8, "LANES": 64, "ONCE": False}),
    (triton_kernels.linear_one, LAYER | {"SHARED": 64, "STEP": 8, "LANES": 64, "ONCE": True}),
    (triton_kernels.linear_many, LAYER | {"IMAGES": 4, "SPREAD": True}),
    (triton_kernels.linear_many, LAYER | {"IMAGES": 4, "SPREAD": False}),
    (triton_kernels.spread, {"COLUMNS": 16, "IMAGES": 4, "EARLY": True}),
    (triton_conv_kernels.conv, LAYER | {"KERNEL_Y": 3, "KERNEL_X": 3, "PIXELS": 32}),
    (triton_conv_kernels.pad, {"BLOCK": 64, "EARLY": True}),
    (triton_view_kernels.brightness_kernel, VIEW),
    (triton_view_kernels.view_kernel, VIEW | {"LIGHT": True, "BLOCKS": 64}),
    (step_kernels.step_kernel, {"SHIFTED": True, "HALF": True, "BLOCK": 64}),
    (step_kernels.step_kernel, {"SHIFTED": False, "HALF": False, "BLOCK": 64}),
    (step_kernels.step_gates_kernel, {"SHIFTED": False, "HAS_GRAD": True, "BLOCK": 64}),
    (step_kernels.step_gates_kernel, {"SHIFTED": True, "HAS_GRAD": False, "BLOCK": 64}),
)
MOVED = ("weights", "velocities", "gates", "gate_velocities", "grads", "bases", "tilts")
SEVERAL = 16
RATES = ("lr", "momentum", "decay", "gate_lr", "gate_momentum", "base", "tilt", "bases", "tilts")


def compiled(kernel: Any, constants: dict[str, Any], kind: int) -> int:
    """Bytes of the machine code."""
    types = {
        "columns": COLUMNS[kind],
        "records": "*i32",
        "bias": "*fp32",
        "order": "*i32",
        "bands": ("i32",) * 16,
    }
    types |= dict.fromkeys(("x", "values", "out"), FLOATS[kind]) | dict.fromkeys(RATES, "fp32")
    types |= {"weights": "*fp32", "velocities": "*fp32", "grads": "*fp32", "shift": "*fp32"}
    types |= {
        "gates": ("*fp16", "*fp32")[kind % 2],
        "gate_velocities": ("*bf16", "*fp32")[kind % 2],
    }
    types |= {"images": "*u8", "mirrors": "*i64", "smallest": "fp32"} | dict.fromkeys(
        ("means", "spreads"), ("fp32",) * 3
    )
    types |= dict.fromkeys(("crops", "sums", "light"), "*fp32")
    if kernel is step_kernels.step_kernel:  # of several weights
        types |= {name: (types.get(name, "i32"),) * SEVERAL for name in (*MOVED, "sizes")}
    constants = {
        name: ({"KIND": kind} | constants)[name] for name in kernel.arg_names if name.isupper()
    }
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")
        for name in kernel.arg_names
    }
    source = ASTSource(
        kernel, signature, {(kernel.arg_names.index(name),): at for name, at in constants.items()}
    )
    return len(
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"launch_pdl": True}).asm[
            "cubin"
        ]
    )


if __name__ == "__main__":
    for kind in range(4):
        sys.stdout.write(
            f"{kind}: {[compiled(kernel, constants, kind) for kernel, constants in KERNELS]}\n"
        )
