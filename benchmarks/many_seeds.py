"""Trains recipes that have a teacher with several seeds, all at once, and writes their studies.

python benchmarks/many_seeds.py lenet5-300x lenet5-500x --seeds 0 1 2 3 4
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.distil import Ensemble
from sparsegate_lab.batched import Member, check_agreement, train_many
from sparsegate_lab.data import Dataset, load_data
from sparsegate_lab.paper import PUPILS, Pupil
from sparsegate_lab.record import Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run, empty_network

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "recipes", nargs="+", choices=list(PUPILS), help="those that agree are trained as one"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, help="in the place of the recipes' own")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    pupils = {name: with_epochs(PUPILS[name](), options.epochs) for name in options.recipes}
    command = f"python benchmarks/many_seeds.py {' '.join(pupils)} --seeds {' '.join(map(str, options.seeds))}"
    command += f" --epochs {options.epochs}" if options.epochs else ""
    began = time.perf_counter()
    taught = teacher(next(iter(pupils.values())), options.folder)
    fields = {
        (name, seed): pupil.field(seed) for name, pupil in pupils.items() for seed in options.seeds
    }
    by_member: dict[Member, Record] = {}
    for members in agreeing([list(field) for field in fields.values()]):
        records = train_many(members, folder=options.folder, teacher=taught, command=command)
        by_member |= zip(members, records, strict=True)
        print(
            f"{len(members)} members, {time.perf_counter() - began:.0f} s with the teachers",
            flush=True,
        )
    data = load_data(next(iter(by_member)).run.data)
    for name in pupils:
        chosen = [
            chosen_of(fields[name, seed], by_member, options.folder, data) for seed in options.seeds
        ]
        study = Study((PUPILS[name].__doc__ or name).strip(), command, tuple(chosen))
        study.save(options.results / f"{name}.json")
        test, kept = (
            study.summary(lambda record: record.test),
            study.summary(lambda record: record.kept),
        )
        print(
            f"{name}: {kept.mean:.0f} weights, test {test.mean:.3f} ± {test.spread:.3f} %",
            flush=True,
        )


def agreeing(fields: Sequence[list[Member]]) -> list[list[Member]]:
    """The fields in batches of those that can be trained as one."""
    batches: list[list[Member]] = []
    for field in fields:
        for batch in batches:
            try:
                check_agreement([*batch, *field])
            except ValueError:
                continue
            batch += field
            break
        else:
            batches.append(list(field))
    return batches


def with_epochs(pupil: Pupil, epochs: int | None) -> Pupil:
    if epochs is None:
        return pupil
    run = dataclasses.replace(pupil.member.run, epochs=epochs)
    return dataclasses.replace(pupil, member=dataclasses.replace(pupil.member, run=run))


def chosen_of(
    field: Sequence[Member], records: dict[Member, Record], folder: Path, data: Dataset
) -> Record:
    """The record of the candidate with the lowest loss on the validation split, with a note about all of them."""
    if len(field) == 1:
        return records[field[0]]
    losses = {
        member: validation_loss(network(member.run, folder / member.name), data) for member in field
    }
    best = min(field, key=losses.__getitem__)
    seen = ", ".join(f"{losses[each]:.4f} ({records[each].validation:.2f} %)" for each in field)
    note = (
        f"of {len(field)} candidates the one with the lowest loss on the validation split: {seen}"
    )
    return dataclasses.replace(records[best], notes=(*records[best].notes, note))


@torch.no_grad()
def validation_loss(model: nn.Module, data: Dataset) -> float:
    """The mean cross-entropy on the validation split."""
    model, split = model.to(DEVICE).eval(), data.validation.to(DEVICE)
    return float(F.cross_entropy(model(data.normalise(split.images)), split.labels))


def network(run: Run[Any], folder: Path) -> nn.Module:
    """The network that a run has left in its folder."""
    model = empty_network(run)
    model.load_state_dict(safetensors.torch.load_file(folder / "network.safetensors"))
    return model


def teacher(pupil: Pupil, folder: Path) -> nn.Module:
    """The networks that teach, trained at once if they are not there, as one."""
    records = train_many(pupil.teachers, folder=folder)
    return Ensemble(
        *(
            network(run, folder / each.name)
            for run, each in zip(pupil.teachers, records, strict=True)
        )
    )


if __name__ == "__main__":
    main()
