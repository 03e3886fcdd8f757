"""Times the steps of the recipes with a teacher on this machine's cores, at first and when few units are left.

python benchmarks/many_cost.py --threads 2
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import torch

from sparsegate_lab.batched import ManyLoop, Member
from sparsegate_lab.batched.schedule_table import knob_table
from sparsegate_lab.data import mnist
from sparsegate_lab.recipes import STUDENTS
from sparsegate_lab.train import machine, versions

LEFT = {  # inputs that are read in the end, at the most: as in networks of the search
    "lenet5-300x": {"conv2.weight": 20, "fc1.weight": 34 * 16, "fc2.weight": 151},
    "lenet5-500x": {"conv2.weight": 16, "fc1.weight": 22 * 16, "fc2.weight": 69},
}
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("results/many-cost.json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = {name: cost(name, options.steps) for name in STUDENTS}
    student = STUDENTS["lenet5-300x"]()
    epoch = epoch_seconds(ManyLoop([Member(student.teachers[0])], mnist(), CPU), options.steps)
    minutes = epoch * sum(run.epochs for run in student.teachers) / 60
    found = {
        "title": "Minutes of small LeNets in the batched trainer, multiplied from some of their steps",
        "command": f"python benchmarks/many_cost.py --threads {options.threads} --steps {options.steps}",
        "recipes": rows,
        "teachers": {
            "networks": len(student.teachers),
            "epoch": round(epoch, 1),
            "minutes": round(minutes),
        },
        "machine": machine(),
        "versions": versions(),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for name, row in rows.items():
        print(name, row)
    print("teachers", found["teachers"])


def cost(name: str, steps: int) -> dict[str, Any]:
    """Seconds of an epoch of one network, at first and in the end, and minutes of a seed with all its candidates."""
    student = STUDENTS[name]()
    # Without the teacher, whose answers are looked up, and without variants, which are looked up as
    # well.
    member = dataclasses.replace(
        student.member, share=0.0, late=dataclasses.replace(student.member.late, vary=0.0)
    )
    loop = ManyLoop([member], mnist(), CPU)
    first = last = epoch_seconds(loop, steps)
    for weight, inputs in LEFT.get(name, {}).items():
        gate = loop.stack.params[weight].gate
        assert gate is not None
        gate[:, :, inputs:] = 0.0
    if name in LEFT:
        assert loop.shrinking.shrunk_(frozen=True, cut=False)
        last = epoch_seconds(loop, steps)
    epochs = member.run.epochs * student.num_candidates
    return {
        "epochs": member.run.epochs,
        "networks_of_a_seed": student.num_candidates,
        "first_epoch": round(first, 1),
        "last_epoch": round(last, 1),
        "minutes_of_a_seed": [round(epochs * each / 60) for each in (last, first)],
    }


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
