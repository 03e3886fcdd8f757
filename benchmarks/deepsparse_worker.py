"""Runs DeepSparse, in an environment of its own, for a benchmark that asks over a pipe.

Every line on stdin is a JSON object, every answer one on stdout. {"load": ONNX file, "input": .npy,
"threads": n, "output": .npy to write} prepares an engine and runs it once; {"time": n} answers with
the seconds of n calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ["NM_DISABLE_ANALYTICS"] = "1"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the engine prints goes to stderr

import numpy as np  # noqa: E402
from deepsparse import Engine  # noqa: E402


class Worker:
    """One engine at a time."""

    def load(self, task: dict[str, Any]) -> dict[str, Any]:
        self.engine = None  # its memory goes first
        self.given = [np.load(task["input"])]
        self.engine = Engine(
            model=task["load"], batch_size=len(self.given[0]), num_cores=task["threads"]
        )
        began = time.perf_counter()
        np.save(task["output"], self.engine.run(self.given, val_inp=False)[0])
        return {"version": version("deepsparse"), "first": time.perf_counter() - began}

    def time(self, count: int) -> dict[str, Any]:
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            self.engine.run(self.given, val_inp=False)
            seconds.append(time.perf_counter() - began)
        return {"seconds": seconds}


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer = worker.load(task) if "load" in task else worker.time(task["time"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
