"""Trains many runs at once and writes their records."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.data import Dataset, load_data
from sparsegate_lab.record import Record
from sparsegate_lab.train import (
    Checkpoints,
    Run,
    RunFolder,
    empty_network,
    keep_freed_memory,
    make_record,
)

from .loop import ManyLoop, ManyWatcher
from .member import Member, check_agreement, strength
from .reading import accuracies
from .teacher import Opinion


def train_many(
    runs: Sequence[Run[Any] | Member],
    *,
    folder: Path | str = "runs",
    teacher: nn.Module | None = None,
    watch: ManyWatcher | None = None,
    command: str = "",
    every: float = 60.0,
) -> list[Record]:
    """Trains many networks as one, and returns their records in order.

    Each network is what `train` would make of its run alone, up to rounding, with the weights,
    order of images and shifts of its own seed. Its folder, `folder / run.name`, gets its network
    and record. Members that have a record are not trained again. An interrupted training resumes
    from its last checkpoint when the same members are asked for again.

    Args:
        runs: What to train; a `Member` adds options of the batched trainer.
        folder: Where each member's folder is made.
        teacher: A module that returns logits, for members with a share of its opinion.
        watch: Sees the progress.
        command: The command for the records; the process's own unless given.
        every: Seconds between two checkpoints, which are written at the end of an epoch.
    """
    members = [run if isinstance(run, Member) else Member(run) for run in runs]
    check_agreement(members)
    folders = [RunFolder(Path(folder) / member.name, member.run) for member in members]
    left = [pair for pair in zip(members, folders, strict=True) if pair[1].record() is None]
    if left:
        keep_freed_memory()
        _Session(dict(left), Path(folder), teacher, watch or ManyWatcher(), command, every).train()
    return [record for run_folder in folders if (record := run_folder.record()) is not None]


@dataclass(frozen=True, eq=False)
class _Session:
    """Returns the members that have no record yet."""

    folders: dict[Member, RunFolder]
    folder: Path
    teacher: nn.Module | None
    watch: ManyWatcher
    command: str
    every: float

    def train(self) -> None:
        """Trains all members, then writes each one's network and record."""
        data = load_data(next(iter(self.folders)).run.data)
        name = f"many-{_digest([member.name for member in self.folders])}"
        with ExitStack() as held:
            for run_folder in self.folders.values():
                held.enter_context(run_folder.opened())
            loop = self._loop(data, Checkpoints(self.folder / name / "checkpoints", name))
            try:
                loop.train()
            finally:
                self.watch.closed()
            for run_folder, (model, record) in zip(
                self.folders.values(), finished(loop, self.command), strict=True
            ):
                run_folder.close(model, record)
        shutil.rmtree(self.folder / name)

    def _loop(self, data: Dataset, checkpoints: Checkpoints) -> ManyLoop:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        members = list(self.folders)
        opinion = None
        if self.teacher is not None:
            widest = max(member.run.shift for member in members)
            teacher, split = self.teacher.to(device), data.train.to(device)
            opinion = Opinion.of(teacher, split, data.normalise, widest, vary=strength(members))
        return ManyLoop(
            members,
            data,
            device,
            opinion=opinion,
            checkpoints=checkpoints,
            every=self.every,
            watch=self.watch,
        )


def _digest(names: list[str]) -> str:
    return hashlib.blake2b(" ".join(names).encode(), digest_size=4).hexdigest()


def finished(loop: ManyLoop, command: str) -> list[tuple[nn.Module, Record]]:
    """Returns every member's network, on the CPU, with its record; reads the test set once."""
    states = loop.stack.finished()
    models = [_network(loop, states, index) for index in range(len(loop.members))]
    whole = {
        name: torch.stack([model.state_dict()[name] for model in models]).to(loop.device)
        for name in states
    }
    scores = {
        name: accuracies(loop.stack, whole, split, loop.normalise)
        for name, split in loop.splits.items()
    }
    return [
        (
            model,
            _record(
                loop, index, model, scores["validation"][index], scores["test"][index], command
            ),
        )
        for index, model in enumerate(models)
    ]


def _network(loop: ManyLoop, states: dict[str, Tensor], index: int) -> nn.Module:
    member = loop.members[index]
    model = empty_network(member.run, loop.stack.num_classes)
    model.load_state_dict({name: each[index].cpu() for name, each in states.items()})
    if member.most is not None:
        remove_dead_paths(model, loop.example)
    return model


def _record(
    loop: ManyLoop, index: int, model: nn.Module, validation: float, test: float, command: str
) -> Record:
    member = loop.members[index]
    return make_record(
        member.run,
        model,
        name=member.name,
        command=command,
        processes={"processes": 1, "members": len(loop.members)},
        accuracies={"validation": validation, "test": test},
        epochs=loop.epochs[index],
        seconds=loop.seconds,
        notes=(*member.about(), *_price(loop, index), *loop.notes[index]),
        first_gates=loop.first_gates[index],
    )


def _price(loop: ManyLoop, index: int) -> tuple[str, ...]:
    """Returns the note on the final price of a steered member."""
    member = loop.members[index]
    if member.most is None:
        return ()
    price = float(loop.stack.factor[index]) * member.run.method.penalty.count
    return (f"steered to that number, the price ended at {price:.4g}",)
