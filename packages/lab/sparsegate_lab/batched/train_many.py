"""Turns the descriptions of many runs into their records."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sparsegate_lab.data import Dataset, load_data
from sparsegate_lab.record import Record
from sparsegate_lab.train import Checkpoints, Run, RunFolder, keep_freed_memory

from .loop import ManyLoop
from .member import Member, check_agreement, strength
from .records import finished
from .teacher import Opinion
from .watch import ManyWatcher


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

    Each gets what `train` would give it alone, up to rounding: its own seed's weights, order of images and shifts; and
    its own folder, `folder / run.name`, with its network and record. Members whose records are there are not trained
    again. What was interrupted goes on from its last checkpoint when the same members are asked for again; there is one
    every so many seconds (`every`), at the end of an epoch, since those of many members are large.
    """
    members = [each if isinstance(each, Member) else Member(each) for each in runs]
    check_agreement(members)
    places = [RunFolder(Path(folder) / member.name, member.run) for member in members]
    left = [pair for pair in zip(members, places, strict=True) if pair[1].record() is None]
    if left:
        keep_freed_memory()
        _Session(dict(left), Path(folder), teacher, watch or ManyWatcher(), command, every).train()
    return [record for place in places if (record := place.record()) is not None]


@dataclass(frozen=True, eq=False)
class _Session:
    """The members that have no record yet."""

    places: dict[Member, RunFolder]
    folder: Path
    teacher: nn.Module | None
    watch: ManyWatcher
    command: str
    every: float

    def train(self) -> None:
        """Trains all of them, then writes each one's network and record."""
        data = load_data(next(iter(self.places)).run.data)
        name = f"many-{_digest([member.name for member in self.places])}"
        with ExitStack() as held:
            for place in self.places.values():
                held.enter_context(place.opened())
            loop = self._loop(data, Checkpoints(self.folder / name / "checkpoints", name))
            try:
                loop.train()
            finally:
                self.watch.closed()
            for place, (model, record) in zip(
                self.places.values(), finished(loop, self.command), strict=True
            ):
                place.close(model, record)
        shutil.rmtree(self.folder / name)

    def _loop(self, data: Dataset, checkpoints: Checkpoints) -> ManyLoop:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        members = list(self.places)
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
