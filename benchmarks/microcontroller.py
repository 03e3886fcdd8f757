"""What LeNet-5 takes on a Cortex-M under qemu: flash, RAM and instructions, at 300x and dense, in int8 and fp32.

python benchmarks/microcontroller.py measures a LeNet-5 with as many weights in every layer as our smallest one, random
ones, and a dense one by the same code. It needs gcc-arm-none-eabi and qemu-system-arm. Instructions are counted, not
cycles: qemu knows no waiting for memory. Inputs count neither as flash nor as RAM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from speed_cases import lenet5, recorded
from torch import Tensor, nn

import sparsegate as sg
from sparsegate_lab.data import mnist
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

sys.path.append(str(Path(__file__).parent.parent / "examples/keyword"))
import boards

IMAGES = 4


def on_board(name: str, source: Path, images: Tensor, wanted: Tensor) -> dict[str, Any]:
    """What a program takes on one board, and how far its outputs are from PyTorch's."""
    run = boards.run(boards.BOARDS[name], source, images)
    error = (torch.from_numpy(run.outputs) - wanted).abs().max() / wanted.abs().max()
    return {
        "flash of the program": run.flash,
        "RAM with the stack": run.ram,
        "instructions for an image": round(run.instructions),
        "largest difference, share of the largest output": float(f"{float(error):.2g}"),
    }


@torch.no_grad()
def measured(model: nn.Module, dtype: str, names: list[str]) -> dict[str, Any]:
    """One network in one data type on some boards."""
    data = mnist()
    example = data.normalise(data.train.images[:300])
    images = data.normalise(data.validation.images[:IMAGES])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "network.c"
        written = sg.to_c(model, source, example=example, dtype=dtype, form="tables")
        found = {name: on_board(name, source, images, model(images)) for name in names}
    return {
        "weights": written.num_weights,
        "flash of weights and tables": written.flash,
        "RAM of the arena": written.ram,
        **found,
    }


def compiler() -> str:
    """The first line that the compiler says of itself."""
    done = subprocess.run(
        ["arm-none-eabi-gcc", "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[0]


def emulator() -> str:
    """The first line that the emulator says of itself."""
    done = subprocess.run(
        ["qemu-system-arm", "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.manual_seed(0)
    sparse, dense = lenet5(recorded()).eval(), LeNet5().eval()
    both = list(boards.BOARDS)
    networks = {
        "300x, int8": measured(sparse, "int8", both),
        "300x, fp32": measured(sparse, "fp32", both[:1]),
        "dense, int8": measured(dense, "int8", both[:1]),
        "dense, fp32": measured(dense, "fp32", both[:1]),
    }
    ours, theirs = (networks[name] for name in ("300x, int8", "dense, int8"))
    key = "instructions for an image"
    result = {
        "title": "LeNet-5 on microcontrollers: random weights, as many in every layer as ours at 300x",
        "command": "python benchmarks/microcontroller.py",
        "seed": 0,
        "machine": machine(),
        "versions": {**versions(), "compiler": compiler(), "emulator": emulator()},
        "dense int8 / ours": {
            "instructions": round(theirs[both[0]][key] / ours[both[0]][key], 1),
            "flash of the program": round(
                theirs[both[0]]["flash of the program"] / ours[both[0]]["flash of the program"], 1
            ),
        },
        "networks": networks,
    }
    content = json.dumps(result, indent=1).encode() + b"\n"
    write_atomically(options.results / "microcontroller.json", content)
    print(content.decode())


if __name__ == "__main__":
    main()
