"""Trains students: small networks that learn from dense ones, with a choice among candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.distil import Ensemble
from sparsegate_lab.batched import ManyWatcher, Member, check_agreement, train_many
from sparsegate_lab.data import Dataset, load_data
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, RunFolder, empty_network

SEED_DISTANCE = 1000  # between the seeds of two candidates


@dataclass(frozen=True)
class Student:
    """A network for the batched trainer, and the runs whose networks teach it."""

    member: Member
    teachers: tuple[Run[Any], ...]
    """The mean of their logits teaches."""
    num_candidates: int = 1
    """Networks to train for each seed; the one with the lowest validation loss is kept."""

    def candidates(self, seed: int) -> tuple[Member, ...]:
        """The networks to train for a seed; the first one has the seed itself.

        >>> student = Student(Member(Run()), (), num_candidates=3)
        >>> [member.run.seed for member in student.candidates(4)]
        [4, 1004, 2004]
        """
        seeds = [seed + SEED_DISTANCE * number for number in range(self.num_candidates)]
        runs = (dataclasses.replace(self.member.run, seed=own) for own in seeds)
        return tuple(dataclasses.replace(self.member, run=run) for run in runs)

    def with_settings(
        self, *, epochs: int | None = None, teacher_epochs: int | None = None, **shared: Any
    ) -> Student:
        """The same student with other settings.

        Args:
            epochs: Epochs of the student; unchanged if None.
            teacher_epochs: Epochs of each teacher; unchanged if None.
            shared: Settings of the runs of student and teachers, such as `data`.

        """
        own = shared if epochs is None else {**shared, "epochs": epochs}
        theirs = shared if teacher_epochs is None else {**shared, "epochs": teacher_epochs}
        run = dataclasses.replace(self.member.run, **own)
        member = dataclasses.replace(self.member, run=run)
        teachers = tuple(dataclasses.replace(teacher, **theirs) for teacher in self.teachers)
        return dataclasses.replace(self, member=member, teachers=teachers)


def train_students(
    students: Mapping[str, Student],
    seeds: Sequence[int],
    *,
    folder: Path | str = "runs",
    command: str = "",
    watch: ManyWatcher | None = None,
) -> dict[str, list[Record]]:
    """Trains students of the same teachers, as many at once as possible.

    Networks that have ended are not trained again; an interrupted call resumes.

    Args:
        students: The students by name.
        seeds: Seeds to train each one with.
        folder: The folder of all runs.
        command: The command that the records mention.
        watch: Sees the progress of all trainings.

    Returns:
        For each name, the record of the chosen candidate for each seed.

    """
    folder = Path(folder)
    teachers = {student.teachers for student in students.values()}
    if len(teachers) != 1:
        raise ValueError(
            f"students trained together have the same teachers, got {len(teachers)} sets of them; "
            "train them one by one"
        )
    fields = {
        (name, seed): student.candidates(seed)
        for name, student in students.items()
        for seed in seeds
    }
    records: dict[Member, Record] = {}
    teacher: nn.Module | None = None
    for members in agreeing(list(fields.values())):
        if teacher is None and not all(_has_ended(member, folder) for member in members):
            teacher = _teacher(next(iter(teachers)), folder, watch)
        found = train_many(members, folder=folder, teacher=teacher, command=command, watch=watch)
        records |= zip(members, found, strict=True)
    data = load_data(next(iter(records)).run.data)
    return {
        name: [_chosen(fields[name, seed], records, folder, data) for seed in seeds]
        for name in students
    }


def agreeing(fields: Sequence[Sequence[Member]]) -> list[list[Member]]:
    """Joins fields of candidates into batches that can be trained as one."""
    batches: list[list[Member]] = []
    for field in fields:
        for batch in batches:
            if _agree([*batch, *field]):
                batch += field
                break
        else:
            batches.append(list(field))
    return batches


def _agree(members: Sequence[Member]) -> bool:
    try:
        check_agreement(members)
    except ValueError:
        return False
    return True


def _has_ended(member: Member, folder: Path) -> bool:
    return RunFolder(folder / member.name, member.run).record() is not None


def _teacher(runs: Sequence[Run[Any]], folder: Path, watch: ManyWatcher | None) -> nn.Module:
    """The teachers' networks as one; they are trained first unless they have ended."""
    records = train_many(runs, folder=folder, watch=watch)
    networks = (
        _network(run, folder / record.name) for run, record in zip(runs, records, strict=True)
    )
    return Ensemble(*networks)


def _chosen(
    field: Sequence[Member], records: Mapping[Member, Record], folder: Path, data: Dataset
) -> Record:
    """The record of the candidate with the lowest validation loss, with a note about all."""
    if len(field) == 1:
        return records[field[0]]
    losses = {
        member: _validation_loss(_network(member.run, folder / member.name), data)
        for member in field
    }
    best = records[min(field, key=losses.__getitem__)]
    seen = ", ".join(
        f"{losses[member]:.4f} ({records[member].validation:.2f} %)" for member in field
    )
    note = (
        f"of {len(field)} candidates the one with the lowest loss on the validation split: {seen}"
    )
    return dataclasses.replace(best, notes=(*best.notes, note))


@torch.no_grad()
def _validation_loss(model: nn.Module, data: Dataset) -> float:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, split = model.to(device).eval(), data.validation.to(device)
    return float(F.cross_entropy(model(data.normalise(split.images)), split.labels))


def _network(run: Run[Any], folder: Path) -> nn.Module:
    """The network that a run has left in its folder."""
    state = safetensors.torch.load_file(folder / "network.safetensors")
    model = empty_network(run, _num_classes(state))
    model.load_state_dict(state)
    return model


def _num_classes(state: Mapping[str, torch.Tensor]) -> int:
    return len(list(state.values())[-1])
