"""Engines timed in blocks of calls, one after the other, DeepSparse in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate.runtime import write_onnx

Block = Callable[[int], list[float]]
BLOCK = 0.03  # seconds that one engine runs before the next has its turn
SLOW = 1.0  # seconds of a call that is made only a few times


def block(call: Callable[[], object]) -> Block:
    """The seconds of so many calls."""

    def run(count: int) -> list[float]:
        taken = []
        with torch.inference_mode():
            for _ in range(count):
                began = time.perf_counter()
                call()
                taken.append(time.perf_counter() - began)
        return taken

    return run


def medians(blocks: Mapping[str, Block], *, seconds: float, least: int = 3, most: int = 40) -> dict[str, float]:
    """The median seconds of a call by every engine, in turns, so that a busy moment hits all."""
    first = {name: run(1)[0] for name, run in blocks.items()}
    if max(first.values()) < SLOW:
        first = {name: min(run(3)) for name, run in blocks.items()}
    else:
        least = 2
    counts = {name: max(1, min(100, int(BLOCK / each))) for name, each in first.items()}
    taken: dict[str, list[float]] = {name: [] for name in blocks}
    began, rounds = time.perf_counter(), 0
    while rounds < least or (rounds < most and time.perf_counter() - began < seconds):
        names = list(blocks)[:: 1 if rounds % 2 else -1]  # none always comes first
        for name in names:
            found = blocks[name](counts[name] + (counts[name] > 2))
            taken[name] += found[1:] if counts[name] > 2 else found  # the first finds another's caches
        rounds += 1
    return {name: statistics.median(each) for name, each in taken.items()}


class DeepSparse:
    """The other side of `deepsparse_worker.py`."""

    version = ""

    def __init__(self, python: Path) -> None:
        worker = Path(__file__).with_name("deepsparse_worker.py")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([str(python), str(worker)], text=True, **pipes)
        self._folder = tempfile.TemporaryDirectory()

    def prepare(self, model: nn.Module, x: Tensor, *, threads: int) -> tuple[Block, Tensor]:
        """A block of calls, and the outputs."""
        onnx, given, wanted = (Path(self._folder.name) / name for name in ("network.onnx", "x.npy", "y.npy"))
        write_onnx(model, x, onnx)
        np.save(given, x.numpy())
        answer = self._ask({"load": str(onnx), "input": str(given), "output": str(wanted), "threads": threads})
        self.version = str(answer["version"])
        return lambda count: list(self._ask({"time": count})["seconds"]), torch.from_numpy(np.load(wanted))

    def _ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"it ended: {self._process.poll()}"}
        if "error" in answer:
            raise RuntimeError(f"DeepSparse: {answer['error']}")
        return answer
