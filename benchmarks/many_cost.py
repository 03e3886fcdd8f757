"""Times the steps of the recipe lenet5-500x on this machine's cores, at first and when few units are left.

python benchmarks/many_cost.py --threads 2
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch

from sparsegate.data import mnist
from sparsegate.many import ManyLoop
from sparsegate.many.knobs import knob_table
from sparsegate.reproduce import PUPILS
from sparsegate.train import machine, versions

LEFT = {"conv2.weight": 16, "fc1.weight": 22 * 16, "fc2.weight": 69}  # inputs that are read: as in the search's best
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("results/many-cost.json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    # Without the teacher, whose answers are looked up.
    member = dataclasses.replace(PUPILS["lenet5-500x"]().member, share=0.0)
    loop = ManyLoop([member], mnist(), CPU)
    whole = epoch_seconds(loop, options.steps)
    for name, inputs in LEFT.items():
        gate = loop.stack.params[name].gate
        assert gate is not None
        gate[:, :, inputs:] = 0.0
    assert loop.shrinking.shrunk_(frozen=True, cut=False)
    found = {
        "title": "Seconds of an epoch of one LeNet-5 in the batched trainer, from some of its steps",
        "command": f"python benchmarks/many_cost.py --threads {options.threads} --steps {options.steps}",
        "whole": round(whole, 1),
        "few_units": round(epoch_seconds(loop, options.steps), 1),
        "widths": {name: list(each.weight.shape[1:]) for name, each in loop.stack.active.items() if name in LEFT},
        "machine": machine(),
        "versions": versions(),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(found)


def epoch_seconds(loop: ManyLoop, steps: int) -> float:
    """Seconds of all steps of an epoch, by some of them after the first two."""
    loop.inputs.load(loop.inputs.drawn(0))
    loop.steps.begin(knob_table(loop.members, 0, loop.inputs.steps))
    for step in range(2):
        loop.steps.take(step)
    began = time.perf_counter()
    for step in range(2, 2 + steps):
        loop.steps.take(step)
    return (time.perf_counter() - began) / steps * loop.inputs.steps


if __name__ == "__main__":
    main()
