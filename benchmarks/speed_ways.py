"""Engines timed in blocks of calls, one after the other, DeepSparse in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate.bench import write_onnx

Block = Callable[[int], list[float]]
BLOCK = 0.03  # seconds that one engine runs before the next has its turn
SLOW = 1.0  # seconds of a call that is made only a few times


@dataclass(frozen=True)
class Way:
    """An engine that is ready: the seconds of so many calls, its outputs, and what its first call took."""

    block: Block
    output: Tensor
    first: float


def in_process(forward: Callable[[Tensor], Tensor], x: Tensor) -> Way:
    """A function of this process."""

    def run(count: int) -> list[float]:
        taken = []
        with torch.inference_mode():
            for _ in range(count):
                began = time.perf_counter()
                forward(x)
                taken.append(time.perf_counter() - began)
        return taken

    began = time.perf_counter()
    with torch.inference_mode():
        output = forward(x).clone()
    return Way(run, output, time.perf_counter() - began)


def medians(ways: Mapping[str, Way], *, seconds: float, most: int = 40) -> dict[str, float]:
    """The median seconds of a call by every engine, in turns, so that a busy moment hits all."""
    quick = max(way.first for way in ways.values()) < SLOW
    first = {name: min(way.block(2)) if quick else way.first for name, way in ways.items()}
    counts = {name: max(1, min(100, int(BLOCK / each))) for name, each in first.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    began, rounds = time.perf_counter(), 0
    while rounds < (3 if quick else 2) or (rounds < most and time.perf_counter() - began < seconds):
        for name in list(ways)[:: 1 if rounds % 2 else -1]:  # none always comes first
            if first[name] > 4 * SLOW and taken[name]:
                continue  # once is enough
            found = ways[name].block(counts[name] + (counts[name] > 2))
            taken[name] += (
                found[1:] if counts[name] > 2 else found
            )  # the first finds another's caches
        rounds += 1
    return {name: statistics.median(each) for name, each in taken.items()}


class DeepSparse:
    """The other side of `deepsparse_worker.py`."""

    version = ""

    def __init__(self, python: Path) -> None:
        worker = Path(__file__).with_name("deepsparse_worker.py")
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
        }
        self._process = subprocess.Popen([str(python), str(worker)], text=True, **pipes)
        self._folder = tempfile.TemporaryDirectory()

    def prepare(self, model: nn.Module, x: Tensor, *, threads: int) -> Way:
        """An engine for the batch of x.

        The file is written with a batch of one, which it changes.
        """
        onnx, given, wanted = (
            Path(self._folder.name) / name for name in ("network.onnx", "x.npy", "y.npy")
        )
        write_onnx(model, x[:1], onnx)
        np.save(given, x.numpy())
        answer = self._ask(
            {"load": str(onnx), "input": str(given), "output": str(wanted), "threads": threads}
        )
        self.version = str(answer["version"])
        output = torch.from_numpy(np.load(wanted))
        return Way(
            lambda count: list(self._ask({"time": count})["seconds"]),
            output,
            float(answer["first"]),
        )

    def _ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": f"it ended: {self._process.poll()}"}
        )
        if "error" in answer:
            raise RuntimeError(f"DeepSparse: {answer['error']}")
        return answer
