"""Instructions of layers on 64-bit ARM with NEON: dense, and with 90 % zeros.

    python -m benchmarks.arm_instructions --out results/arm-instructions.json

Needs qemu-user and PyPI's ziglang. A plugin of qemu counts every instruction of one run. `dense` is
a dense matrix product with NEON as in the fastest libraries: eight rows and twelve columns are
summed in registers, both matrices are packed already, and a convolution's patches are not counted.
`products an instruction` says how close it is to the most that NEON can do, which is four. `our
dense` is the engine's own kernel for weights without zeros. Instructions are not time: memory may be
slower than arithmetic.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.arm.emulated import (
    build,
    build_counter,
    build_dense,
    dense_instructions,
    instructions,
    missing,
)

from sparsegate.bench import machine, versions
from sparsegate_runtime.engine import INSTRUCTION_SETS, Plan, image_of
from sparsegate_runtime.engine import network as n

ZEROS = 0.9
NEON = INSTRUCTION_SETS["neon"]


def linear(tokens: int, features: int, zeros: float) -> n.Network:
    """A linear layer on some tokens."""
    x = n.Input(shape=(tokens, features), index=0)
    weight = weights((features, features), zeros)
    y = n.Linear(inputs=(x,), shape=(tokens, features), weight=weight, bias=None)
    return n.Network((x, y), (y,))


def conv(channels: int, size: int, kernel: int, zeros: float) -> n.Network:
    """A convolution of one image that keeps its size."""
    x = n.Input(shape=(1, channels, size, size), index=0)
    side = (kernel // 2, kernel // 2)
    y = n.Conv(
        inputs=(x,),
        shape=x.shape,
        weight=weights((channels, channels, kernel, kernel), zeros),
        bias=None,
        stride=(1, 1),
        padding=(side, side),
        dilation=(1, 1),
        groups=1,
    )
    return n.Network((x, y), (y,))


def weights(shape: tuple[int, ...], zeros: float) -> Any:
    """Random weights, of which a part is zero."""
    rng = np.random.default_rng(0)
    made = rng.standard_normal(shape).astype(np.float32)
    made[rng.random(shape) < zeros] = 0
    return made


CASES = {
    "linear, 512 features, 64 tokens": (partial(linear, 64, 512), (512, 512, 64)),
    "1x1 convolution, 128 channels, 28x28": (partial(conv, 128, 28, 1), (128, 128, 784)),
    "3x3 convolution, 64 channels, 28x28": (partial(conv, 64, 28, 3), (64, 576, 784)),
    "3x3 convolution, 128 channels, 14x14": (partial(conv, 128, 14, 3), (128, 1152, 196)),
}
"""Networks by their part of zeros; rows, products of a row, and positions of the dense product."""


def measured(folder: Path) -> list[dict[str, Any]]:
    """A row for every case."""
    program, dense, counter = build(folder), build_dense(folder), build_counter(folder)
    rows = []
    for case, (made, shape) in CASES.items():
        counts = {}
        for zeros in (0.0, ZEROS):
            network = made(zeros)
            image = image_of(Plan(network, variant=NEON))
            x = np.zeros(network.inputs[0].shape, np.float32)
            counts[zeros] = instructions(program, image, [x], folder, counter)
        reference = dense_instructions(dense, *shape, counter)
        products = math.prod(shape)
        rows.append(
            {
                "case": case,
                "products": products,
                "dense": reference,
                "our dense": counts[0.0],
                "sparse": counts[ZEROS],
                "dense / sparse": round(reference / counts[ZEROS], 2),
                "products an instruction": {
                    "dense": round(products / reference, 2),
                    "our dense": round(products / counts[0.0], 2),
                    "sparse": round(products * (1 - ZEROS) / counts[ZEROS], 2),
                },
            }
        )
    return rows


def main() -> None:
    """Counts, prints and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if missing():
        parser.error(missing())
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(Path(folder))
    for row in rows:
        print(row)
    record = {
        "title": "Instructions of layers on 64-bit ARM: dense with NEON, and with 90 % zeros",
        "command": "python -m benchmarks.arm_instructions --out results/arm-instructions.json",
        "seed": 0,
        "machine": {**machine(), "emulated": "aarch64, by qemu-user with a counting plugin"},
        "versions": versions("numpy", "ziglang"),
        "zeros": ZEROS,
        "rows": rows,
    }
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
