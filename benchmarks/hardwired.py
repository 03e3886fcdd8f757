"""How fast hard-wired code is beside PyTorch eager, in one thread: interleaved medians, batches 1, 16, 64 and 256.

`called from Python` is the compiled module as a user calls it; `in C` leaves out what Python adds, by calling the same
function with pointers that are ready.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import sparsegate as sg
from sparsegate.data import mnist
from sparsegate.export import HardWired, find_compiler, hard_wire
from sparsegate.models import LeNet5
from sparsegate.train.provenance import machine, versions

BATCHES = (1, 16, 64, 256)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Microseconds of one call."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats * 1e6


def ways(model: LeNet5, fast: HardWired, images: torch.Tensor) -> dict[str, Callable[[], object]]:
    logits = torch.empty(len(images), 10)
    words = (images.data_ptr(), len(images), logits.data_ptr())

    def in_c(kept: torch.Tensor = logits) -> None:  # pointers keep no tensor alive
        fast._run(*words)

    return {
        "eager": lambda: model(images),
        "called from Python": lambda: fast(images),
        "in C": in_c,
    }


def speed(model: LeNet5, fast: HardWired, images: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Medians of rounds in which every way takes its turn, and the ratios of eager to the others."""
    each = ways(model, fast, images)
    taken: dict[str, list[float]] = {name: [] for name in each}
    repeats = max(1, 32 // len(images))
    for number in range(rounds + 3):
        for name in list(each)[:: 1 if number % 2 else -1]:  # none always runs first
            micros = timed(each[name], repeats)
            if number >= 3:  # the first rounds warm up
                taken[name].append(micros)
    middle = {name: round(statistics.median(values), 2) for name, values in taken.items()}
    return {
        "median_microseconds": middle,
        "times eager": {name: round(middle["eager"] / value, 1) for name, value in middle.items() if name != "eager"},
    }


def network(path: Path, rounds: int) -> dict[str, Any]:
    """Everything about one network."""
    data = mnist()
    model = sg.load(path).into(LeNet5()).eval()
    images, labels = data.normalise(data.validation.images), data.validation.labels
    example = data.normalise(data.train.images[:512])
    result: dict[str, Any] = {}
    for dtype in ("fp32", "int8"):
        began = time.perf_counter()
        fast = hard_wire(model, example=example, dtype=dtype)
        seconds = time.perf_counter() - began
        with torch.no_grad():
            wanted, found = model(images), fast(images)
            result[dtype] = {
                "weights": fast.code.num_weights,
                "source_bytes": len(fast.code.source),
                "seconds to write and compile (0 from the cache)": round(seconds, 1),
                "largest difference of a logit": float((found - wanted).abs().max()),
                "validation images right": int((found.argmax(1) == labels).sum()),
                "of which eager": int((wanted.argmax(1) == labels).sum()),
                "images": len(labels),
                "batches": {str(size): speed(model, fast, images[:size].clone(), rounds) for size in BATCHES},
            }
        print(path.stem, dtype, json.dumps(result[dtype], indent=1), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", type=Path, nargs="+", help="files of LeNet-5")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = " ".join(path.name for path in options.networks)
    result = {
        "title": "Hard-wired LeNet-5 beside PyTorch eager, one thread",
        "command": f"taskset -c 1 python benchmarks/hardwired.py {names} --rounds {options.rounds}",
        "machine": {**machine(), "threads": 1},
        "versions": {**versions(), "compiler": " ".join(find_compiler())},
        "networks": {path.stem: network(path, options.rounds) for path in options.networks},
    }
    options.results.mkdir(exist_ok=True)
    (options.results / "hardwired.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
