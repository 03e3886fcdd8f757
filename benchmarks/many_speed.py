"""Times the batched trainer and compares it with single runs.

Usage: python benchmarks/many_speed.py --members 32
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from sparsegate.price import Penalty
from sparsegate_lab.batched import ManyLoop, Member, train_many
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.data import mnist
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import Run, machine, train, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["lenet5", "lenet300"])
    parser.add_argument("--members", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--alone", type=int, default=2, help="members that are trained alone, too, for one epoch"
    )
    parser.add_argument(
        "--remark", default="", help="what a reader should know, such as who else used the GPU"
    )
    parser.add_argument("--out", type=Path, default=Path("results/many-speed.json"))
    options = parser.parse_args()
    command = shlex.join(["python", "benchmarks/many_speed.py", *sys.argv[1:]])
    about = {
        "command": command,
        "machine": machine(),
        "versions": versions(),
        "remark": options.remark,
    }
    found: dict[str, Any] = dict(about)
    found |= {"steps": [], "beside_single_runs": []}
    sizes = itertools.product(options.models, options.members, options.precisions)
    alone = options.models if options.alone else []
    for kind, rows in (
        ("steps", (timed(*each, options.steps) for each in sizes)),
        ("beside_single_runs", (beside_single_runs(model, options.alone) for model in alone)),
    ):
        for row in rows:
            found[kind].append(row)
            options.out.write_text(
                json.dumps(found, indent=1) + "\n"
            )  # what comes later may be cut off


def timed(model: str, members: int, precision: Any, steps: int) -> dict[str, Any]:
    """Milliseconds of a step, and seconds of what comes before and after an epoch's steps."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    run = Run(
        model=model, precision=precision, epochs=2, method=LearnedGates(penalty=Penalty(count=12.0))
    )
    loop = ManyLoop(
        [Member(dataclasses.replace(run, seed=seed)) for seed in range(members)], mnist(), device
    )
    began = time.perf_counter()
    loop.inputs.load(loop.inputs.drawn(0))
    loop.steps.begin(knob_table(loop.members, 0, loop.inputs.steps))
    loop.steps.take(0)
    wait(device)
    ready = time.perf_counter()
    for step in range(1, steps + 1):
        loop.steps.take(step)
    wait(device)
    stepped = time.perf_counter()
    loop._measure(1)
    wait(device)
    row = {
        "model": model,
        "members": members,
        "precision": precision,
        "step_ms": round(1000 * (stepped - ready) / steps, 4),
        "before_s": round(ready - began, 3),
        "measure_s": round(time.perf_counter() - stepped, 3),
    }
    print(row, flush=True)
    return row


def beside_single_runs(model: str, number: int) -> dict[str, Any]:
    """The losses of one epoch, and the seconds, of members together and of each alone."""
    runs = [Run(model=model, epochs=1, seed=seed, lr=0.02 * (1 + seed)) for seed in range(number)]
    with tempfile.TemporaryDirectory() as folder:
        together = train_many(runs, folder=Path(folder) / "together")
        alone = [train(run, folder=Path(folder) / "alone") for run in runs]
    row = {
        "model": model,
        "losses_together": [record.epochs[0].loss for record in together],
        "losses_alone": [record.epochs[0].loss for record in alone],
        "seconds_together": together[0].seconds,
        "seconds_alone": sum(record.seconds for record in alone),
    }
    print(row, flush=True)
    return row


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
