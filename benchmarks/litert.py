"""Google's sparse face detector by LiteRT, by `sg.sparse` and from a network file: one thread, in turns.

Takes the `.tflite` file, which the wheels of mediapipe hold (`face_detection_full_range_sparse.tflite` in 0.10.14).
Writes results/face-detector.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from zoo import network

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate_runtime import Network
from sparsegate_runtime.atomic import write_atomically

RECORD = Path(__file__).parent.parent / "results" / "face-detector.json"
Outputs = list[NDArray[Any]]


def litert(path: Path, image: NDArray[np.float32]) -> Callable[[], Outputs]:
    """A call of LiteRT's interpreter; its images have their channels last."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    made = interpreter.get_output_details()
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))

    def run() -> Outputs:
        interpreter.set_tensor(given["index"], last)
        interpreter.invoke()
        return [interpreter.get_tensor(one["index"]) for one in made]

    return run


def ours(image: NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
    """Calls of `sg.sparse` and of the network file."""
    model, example = network("face-detector")
    fast, x = sg.sparse(model, example), torch.from_numpy(image)
    with tempfile.TemporaryDirectory() as folder:
        sg.save_network(model, example, Path(folder) / "net.sgn")
        net = Network.load(Path(folder) / "net.sgn")
    net.threads = 1
    return {"sg.sparse": lambda: fast(x), "network file": lambda: net(image)}


def milliseconds(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Times of calls that take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - began)
    return {
        name: {
            "median": round(1e3 * statistics.median(found[3:]), 3),
            "least": round(1e3 * min(found), 3),
        }
        for name, found in seconds.items()
    }


def difference(one: Outputs, other: Outputs) -> float:
    """The largest difference over the largest value; the order of outputs may differ."""
    one, other = (sorted(each, key=lambda array: array.size) for each in (one, other))
    return max(
        float(np.abs(a.reshape(-1) - b.reshape(-1)).max() / np.abs(b).max())
        for a, b in zip(one, other, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tflite", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    torch.set_num_threads(1)
    image = np.random.default_rng(0).random((1, 3, 192, 192), np.float32) * 2 - 1
    ways = {"litert": litert(options.tflite, image), **ours(image)}
    with torch.no_grad():
        found = milliseconds(ways, options.rounds)
        apart = difference(list(ways["network file"]()), ways["litert"]())
    record = {
        "title": "Google's sparse face detector by LiteRT and by sparsegate, one thread",
        "command": shlex.join(["python", *sys.argv[:1], options.tflite.name, *sys.argv[2:]]),
        "seed": 0,
        "machine": machine(),
        "versions": versions("torch", "numpy")
        | {"ai-edge-litert": importlib.metadata.version("ai-edge-litert")},
        "rounds": options.rounds,
        "milliseconds": found,
        "largest difference": apart,
        "litert / sg.sparse": round(found["litert"]["median"] / found["sg.sparse"]["median"], 2),
        "litert / network file": round(
            found["litert"]["median"] / found["network file"]["median"], 2
        ),
    }
    write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
