"""How fast hard-wired code is beside PyTorch eager, in one thread: interleaved medians, batches 1, 16, 64 and 256.

python benchmarks/hardwired.py measures a LeNet-5 with as many weights in every layer as our smallest one, random ones;
python benchmarks/hardwired.py FILE ... the networks in these files, and counts the images that they get right too.
`called from Python` is the compiled module as a user calls it; `in C` leaves out what Python adds, by calling the same
function with pointers that are ready.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from speed_cases import lenet5, recorded
from torch import nn

import sparsegate as sg
from sparsegate.export import HardWired, find_compiler, hard_wire
from sparsegate_lab.data import mnist
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import machine, versions
from sparsegate_runtime.atomic import write_atomically

BATCHES = (1, 16, 64, 256)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Microseconds of one call."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats * 1e6


def ways(
    model: nn.Module, fast: HardWired, images: torch.Tensor
) -> dict[str, Callable[[], object]]:
    logits = torch.empty(len(images), 10)
    words = (images.data_ptr(), len(images), logits.data_ptr())

    def in_c(kept: torch.Tensor = logits) -> None:  # pointers keep no tensor alive
        fast._run(*words)

    return {
        "eager": lambda: model(images),
        "called from Python": lambda: fast(images),
        "in C": in_c,
    }


def speed(model: nn.Module, fast: HardWired, images: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Medians of rounds in which every way takes its turn, and the ratios of eager to the others."""
    each = ways(model, fast, images)
    taken: dict[str, list[float]] = {name: [] for name in each}
    repeats = max(1, 128 // len(images))
    for number in range(rounds + 3):
        for name in list(each)[:: 1 if number % 2 else -1]:  # none always runs first
            micros = timed(each[name], repeats)
            if number >= 3:  # the first rounds warm up
                taken[name].append(micros)
    middle = {name: round(statistics.median(values), 2) for name, values in taken.items()}
    return {
        "median_microseconds": middle,
        "times eager": {
            name: round(middle["eager"] / value, 1)
            for name, value in middle.items()
            if name != "eager"
        },
    }


def network(model: nn.Module, rounds: int, *, trained: bool) -> dict[str, Any]:
    """Everything about one network, in both kinds of numbers."""
    data = mnist()
    images, labels = data.normalise(data.validation.images), data.validation.labels
    example = data.normalise(data.train.images[:512])
    result: dict[str, Any] = {}
    for dtype in ("fp32", "int8"):
        began = time.perf_counter()
        fast = hard_wire(model, example=example, dtype=dtype)
        seconds = time.perf_counter() - began
        with torch.inference_mode():
            wanted, found = model(images), fast(images)
            result[dtype] = {
                "weights": fast.code.num_weights,
                "source_bytes": len(fast.code.source),
                "seconds to write and compile (0 from the cache)": round(seconds, 1),
                "largest difference of a logit": float((found - wanted).abs().max()),
                **(right(found, wanted, labels) if trained else {}),
                "batches": {
                    str(size): speed(model, fast, images[:size].clone(), rounds) for size in BATCHES
                },
            }
    return result


def right(found: torch.Tensor, wanted: torch.Tensor, labels: torch.Tensor) -> dict[str, int]:
    """Images that the compiled network gets right, and that it does by PyTorch."""
    count = int((found.argmax(1) == labels).sum())
    by_eager = int((wanted.argmax(1) == labels).sum())
    return {"validation images right": count, "of which eager": by_eager, "images": len(labels)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", type=Path, nargs="*", help="files of LeNet-5")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    files: dict[str, nn.Module] = {
        path.stem: sg.load(path).into(LeNet5()).eval() for path in options.networks
    }
    models = files or {"LeNet-5 at 300x, random weights": lenet5(recorded())}
    words = [*(path.name for path in options.networks), "--rounds", str(options.rounds)]
    result = {
        "title": "Hard-wired LeNet-5 beside PyTorch eager, one thread",
        "command": shlex.join(["python", "benchmarks/hardwired.py", *words]),
        "machine": {**machine(), "threads": 1},
        "versions": {**versions(), "compiler": " ".join(find_compiler())},
        "networks": {
            name: network(model, options.rounds, trained=bool(files))
            for name, model in models.items()
        },
    }
    options.results.mkdir(exist_ok=True)
    write_atomically(
        options.results / "hardwired.json", json.dumps(result, indent=1).encode() + b"\n"
    )
    print(json.dumps(result["networks"], indent=1))


if __name__ == "__main__":
    main()
