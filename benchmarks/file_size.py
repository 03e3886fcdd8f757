"""How large files of both containers are beside their bounds, and how long they take beside dense safetensors.

Sizes: a matrix of 4096 x 4096 at sparsities from 0 to 99.9 %. Times: the 138 million weights of
VGG-16, 92.85 % of them zero, saved and loaded from a warm disk, interleaved with dense safetensors
of the same network; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from sparsegate.files import compress, encode_sg, load, position_entropy
from sparsegate_lab.train import machine, versions

SPARSITIES = (0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999)
SIZE = 4096
MIN_BOUND = 1000  # bits; beside less, a ratio says nothing
# VGG-16 (Simonyan and Zisserman 2015, configuration D): 13 convolutions of 3 x 3, then three linear
# layers
CHANNELS = (3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
CONVOLUTIONS = {
    f"features.{place}.weight": (*pair[::-1], 3, 3) for place, pair in enumerate(pairwise(CHANNELS))
}
LINEAR = {
    "classifier.0.weight": (4096, 25088),
    "classifier.1.weight": (4096, 4096),
    "classifier.2.weight": (1000, 4096),
}
WEIGHTS = CONVOLUTIONS | LINEAR
SHAPES = WEIGHTS | {name.replace("weight", "bias"): shape[:1] for name, shape in WEIGHTS.items()}
VGG_SPARSITY = 0.9285
# 138 357 544 = 138 344 128 weights (14 710 464 + 123 633 664) + 13 416 biases
assert sum(map(prod, SHAPES.values())) == 138_357_544


def sizes(folder: Path) -> list[dict[str, Any]]:
    """A row for every sparsity."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((SIZE, SIZE), dtype=np.float32)
    order = random.random((SIZE, SIZE), dtype=np.float32)
    rows = []
    for sparsity in SPARSITIES:
        path = folder / "matrix.sparse.safetensors"
        packed = compress(
            {"weight": torch.from_numpy(np.where(order >= sparsity, weight, np.float32(0)))}
        )
        packed.save(path)
        entry = packed.entries["weight"]
        assert packed.cost.total == 8 * path.stat().st_size
        bound = position_entropy(entry.total, entry.kept)
        content, cost = encode_sg(packed.entries, packed.same)
        rows.append(
            {
                "sparsity": sparsity,
                "kept": entry.kept,
                "format": entry.format.name,
                "index_bits": entry.cost.indices,
                "entropy_bound_bits": round(bound),
                "index_bits_to_bound": round(entry.cost.indices / bound, 4)
                if bound > 1 and entry.cost.indices
                else None,
                "file_bytes": path.stat().st_size,
                "file_to_dense": round(path.stat().st_size / (4 * SIZE * SIZE), 5),
                "sg_index_bits": cost.indices,
                "sg_index_bits_to_bound": round(cost.indices / bound, 4)
                if bound > MIN_BOUND
                else None,
                "sg_bytes": len(content),
                "sg_to_dense": round(len(content) / (4 * SIZE * SIZE), 5),
            }
        )
    return rows


def vgg16() -> dict[str, torch.Tensor]:
    """Random weights of VGG-16's shapes, 92.85 % of them zero, biases dense."""
    random = np.random.default_rng(0)
    state = {}
    for name, shape in SHAPES.items():
        values = random.standard_normal(shape, dtype=np.float32)
        if name in WEIGHTS:
            values *= random.random(shape, dtype=np.float32) >= VGG_SPARSITY
            values += np.float32(
                0
            )  # -0.0 is not zero: multiplying a negative number by zero gives it
        state[name] = torch.from_numpy(values)
    return state


def skeleton() -> nn.Module:
    """A bare module whose parameters have VGG-16's names and shapes."""
    model = nn.Module()
    for name, shape in SHAPES.items():
        room, place, leaf = name.split(".")
        if not hasattr(model, room):
            model.add_module(room, nn.Module())
        parent = model.get_submodule(room)
        if not hasattr(parent, place):
            parent.add_module(place, nn.Module())
        parent.get_submodule(place).register_parameter(leaf, nn.Parameter(torch.empty(shape)))
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(1)  # the memory is there before the clock starts, for both
    return model


def dense_into(path: Path, model: nn.Module) -> None:
    model.load_state_dict(load_file(path))


def sparse_into(path: Path, model: nn.Module) -> None:
    load(path).into(model)


def sg_from(path: Path, model: nn.Module) -> None:
    compress(model).save(path)


INTO: dict[str, Callable[[Path, nn.Module], None]] = {
    "dense": dense_into,
    "sparse": sparse_into,
    "sg": sparse_into,
    "save sg": sg_from,
}


def on_one_thread(work: Callable[[], object]) -> None:
    """Works as on a processor with one core: torch copies with all it has, decoding takes one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    work()
    torch.set_num_threads(threads)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def times(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of saving and loading, each way, in every round after one that warms up."""
    state, model = vgg16(), skeleton()
    dense, sparse = folder / "vgg16.safetensors", folder / "vgg16.sparse.safetensors"
    ways: dict[str, Callable[[], object]] = {
        "save dense": lambda: save_file(state, dense),
        "save sparse": lambda: compress(state).save(sparse),
        "load dense": lambda: dense_into(dense, model),
        "load dense, one thread": lambda: on_one_thread(lambda: dense_into(dense, model)),
        "load sparse": lambda: sparse_into(sparse, model),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, rounds + 2):
        for name in list(ways)[:: 1 if number % 2 else -1]:  # none always runs first
            taken = timed(ways[name])
            if number > 1:  # the first round warms up
                seconds[name].append(round(taken, 3))
        print({name: each[-1:] for name, each in seconds.items()}, flush=True)
    loaded = model.state_dict()
    assert all(torch.equal(loaded[name], state[name]) for name in state)
    middle = {name: statistics.median(each) for name, each in seconds.items()}
    zeros = round(
        sum(int((each == 0).sum()) for each in state.values()) / sum(map(prod, WEIGHTS.values())), 5
    )
    tight = folder / "vgg16.sg"
    compress(state).save(tight)
    del state, model, loaded
    paths = {
        "imports": dense,
        "model": dense,
        "dense": dense,
        "sparse": sparse,
        "sg": tight,
        "save sg": tight,
    }
    peaks = {way: _peak(way, path) for way, path in paths.items()}
    above = {
        way: round((peaks[way] - peaks["imports"]) / dense.stat().st_size, 3)
        for way in list(paths)[1:]
    }
    seconds["load sg"] = [round(timed(lambda: load(tight)), 3)]
    seconds["save sg"] = [round(timed(lambda: load(sparse).save(tight)), 3)]
    return {
        "weights": sum(map(prod, SHAPES.values())),
        "zeros": zeros,
        "dense_bytes": dense.stat().st_size,
        "sparse_bytes": sparse.stat().st_size,
        "sg_bytes": tight.stat().st_size,
        "seconds": seconds,
        "median_seconds": middle,
        "save sparse / save dense (at most 3)": round(
            middle["save sparse"] / middle["save dense"], 3
        ),
        "load sparse / load dense (at most 1)": round(
            middle["load sparse"] / middle["load dense"], 3
        ),
        "load sparse / load dense, one thread": round(
            middle["load sparse"] / middle["load dense, one thread"], 3
        ),
        "peak_bytes": peaks,
        "peak above imports / dense bytes (at most 1.2)": above,
    }


def _peak(way: str, path: Path) -> int:
    done = subprocess.run(
        [sys.executable, __file__, "--peak", way, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def peak(way: str, path: Path) -> None:
    """Prints the most memory that loading takes in this process, the model's own included."""
    model = skeleton() if way != "imports" else None
    if way == "save sg":
        sparse_into(path, model)
        path.unlink()
        Path("/proc/self/clear_refs").write_text("5")  # the peak of loading does not count
    if way in INTO:
        INTO[way](path, model)
    # Not ru_maxrss: a process inherits that from the one that started it.
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(1024 * int(lines["VmHWM"].split()[0]))


def table(rows: list[dict[str, Any]]) -> str:
    """The rows, one line each, under their names."""
    cells = [list(rows[0]), *([str(each) for each in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak[0], Path(options.peak[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = {
            "title": "*.sparse.safetensors: sizes beside the entropy bound, times beside dense safetensors",
            "command": f"python benchmarks/file_size.py --rounds {options.rounds}",
            "machine": machine(),
            "versions": versions(),
            "matrix_4096": sizes(Path(folder)),
            "vgg16": times(Path(folder), options.rounds),
        }
    options.results.mkdir(exist_ok=True)
    (options.results / "file-size.json").write_text(json.dumps(result, indent=1) + "\n")
    print(table(result["matrix_4096"]))
    print(json.dumps(result["vgg16"], indent=1))


if __name__ == "__main__":
    main()
