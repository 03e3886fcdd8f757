"""Trains recipes that have a teacher with several seeds, all at once, and writes their studies.

python benchmarks/many_seeds.py lenet5-100x lenet5-300x lenet5-500x --seeds 0 1 2 3 4
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import safetensors.torch
from torch import nn

from sparsegate.many import Ensemble, Member, train_many
from sparsegate.reproduce import PUPILS, Pupil
from sparsegate.study import Study
from sparsegate.train import empty_network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+", choices=list(PUPILS), help="of one network: they are trained as one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    command = f"python benchmarks/many_seeds.py {' '.join(options.recipes)} --seeds {' '.join(map(str, options.seeds))}"
    pupils = {name: PUPILS[name]() for name in options.recipes}
    members = [with_seed(pupil.member, seed) for pupil in pupils.values() for seed in options.seeds]
    records = train_many(
        members, folder=options.folder, teacher=teacher(next(iter(pupils.values())), options.folder), command=command
    )
    for place, name in enumerate(pupils):
        part = tuple(records[place * len(options.seeds) : (place + 1) * len(options.seeds)])
        study = Study((PUPILS[name].__doc__ or name).strip(), command, part)
        study.save(options.results / f"{name}.json")
        test, kept = study.summary(lambda record: record.test), study.summary(lambda record: record.kept)
        print(f"{name}: {kept.mean:.0f} weights, test {test.mean:.3f} ± {test.spread:.3f} %")


def with_seed(member: Member, seed: int) -> Member:
    return dataclasses.replace(member, run=dataclasses.replace(member.run, seed=seed))


def teacher(pupil: Pupil, folder: Path) -> nn.Module:
    """The networks that teach, trained at once if they are not there, as one."""
    networks = []
    for run, record in zip(pupil.teachers, train_many(pupil.teachers, folder=folder), strict=True):
        network = empty_network(run)
        network.load_state_dict(safetensors.torch.load_file(folder / record.name / "network.safetensors"))
        networks.append(network)
    return Ensemble(*networks)


if __name__ == "__main__":
    main()
