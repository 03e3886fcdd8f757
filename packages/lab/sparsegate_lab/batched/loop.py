"""The training loop of many members, from their last checkpoint to their records."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparsegate_lab.data import Dataset
from sparsegate_lab.record import Epoch
from sparsegate_lab.train import Checkpoints

from .cut import cut_
from .inputs import ManyInputs
from .member import Member, check_agreement, strength
from .price import steered
from .reading import Readings, accuracies
from .schedule_table import knob_table
from .shrinking import Shrinking
from .stack import Stack
from .steps import Steps
from .teacher import Opinion
from .watch import ManyWatcher


class ManyLoop:
    """All members' training, in one process on one device."""

    def __init__(
        self,
        members: Sequence[Member],
        data: Dataset,
        device: torch.device,
        *,
        opinion: Opinion | None = None,
        checkpoints: Checkpoints | None = None,
        every: float = 60.0,
        watch: ManyWatcher | None = None,
    ) -> None:
        check_agreement(members)
        _check_teacher(members, opinion)
        self.members, self.device, self.normalise = tuple(members), device, data.normalise
        self.checkpoints, self.every, self.watch = checkpoints, every, watch or ManyWatcher()
        self.splits = {name: getattr(data, name).to(device) for name in ("validation", "test")}
        self.stack = Stack(members, data, device)
        self.inputs = ManyInputs(members, data.train, data.normalise, device)
        self.steps = Steps(self.stack, self.inputs, opinion, device)
        self.readings = Readings(self.stack)
        self.example = data.normalise(data.train.images[:1])
        self.shrinking = Shrinking(self.stack, self.example)
        self.epochs: list[list[Epoch]] = [[] for _ in members]
        self.notes: list[list[str]] = [[] for _ in members]
        self.seconds, self.saved = 0.0, time.perf_counter()

    def train(self) -> None:
        """Takes the steps that are left."""
        first = self._resumed()
        count, epochs = self.inputs.steps, self.members[0].run.epochs
        self.watch.began(self.members, first * count, epochs * count)
        drawn = self.inputs.drawn(first) if first < epochs else None
        for number in range(first, epochs):
            began = time.perf_counter()
            assert drawn is not None
            self._forget_speed_(number)
            self._shrink(number, cut=self._cut(number))
            self._epoch(number, drawn)
            self.shrinking.write_back_()
            # A GPU is still at work on the steps while the CPU draws the next epoch.
            drawn = self.inputs.drawn(number + 1) if number + 1 < epochs else None
            self._measure(number + 1)
            self.seconds += time.perf_counter() - began
            self._checkpoint(number + 1, last=number + 1 == epochs)
            self.watch.measured([each[-1] for each in self.epochs])
        self._cut(epochs)  # of those whose gates stop only in the last epoch

    def _epoch(self, number: int, drawn: tuple[Tensor, Tensor]) -> None:
        count = self.inputs.steps
        self.inputs.load(drawn)
        self.steps.begin(knob_table(self.members, number, count, self.stack.factor.tolist()))
        for step in range(number * count, (number + 1) * count):
            self.steps.take(step)
            self.watch.stepped(step + 1)

    def _cut(self, number: int) -> bool:
        """Cuts the members whose gates have just stopped; says whether there were any."""
        due = [
            place
            for place, member in enumerate(self.members)
            if member.most is not None and number == member.frozen_at
        ]
        for place in due:
            cut_(self.stack, place, self.example)
        return bool(due)

    def _forget_speed_(self, number: int) -> None:
        """Stops the weights whose steps adapt from now on, in place."""
        # What an old speed over the size of one gradient comes to has no bound.
        for place, member in enumerate(self.members):
            if member.late.adapt and number == member.frozen_at:
                for each in self.stack.params.values():
                    each.speed[place] = 0.0

    def _shrink(self, number: int, *, cut: bool) -> None:
        """Takes units that nobody reads out of the steps."""
        frozen = all(number >= member.frozen_at for member in self.members)
        if self.shrinking.shrunk_(frozen=frozen, cut=cut):
            self.steps.anew()

    def _measure(self, number: int) -> None:
        losses = [float(loss) / self.inputs.steps for loss in self.steps.losses.cpu()]
        validation = accuracies(
            self.stack, self.stack.finished(), self.splits["validation"], self.normalise
        )
        epochs, closed = self.readings.take(number, losses, validation)
        for place, (epoch, notes) in enumerate(zip(epochs, closed, strict=True)):
            self.epochs[place].append(epoch)
            self._steer(place)
            if not math.isfinite(epoch.loss):
                notes = [
                    *notes,
                    f"the loss became {epoch.loss}; lower lr or the gates' learning rate",
                ]
            self.notes[place] += [note for note in notes if note not in self.notes[place]]

    def _steer(self, place: int) -> None:
        member, factor, epochs = self.members[place], self.stack.factor, self.epochs[place]
        kept, progress = [each.kept for each in epochs], epochs[-1].epoch / member.run.epochs
        factor[place] = steered(float(factor[place]), member, kept, progress)

    def _checkpoint(self, epochs: int, *, last: bool) -> None:
        if self.checkpoints is None or not (last or time.perf_counter() - self.saved >= self.every):
            return
        notes = {
            "epochs": [[vars(each) for each in one] for one in self.epochs],
            "first_gates": self.first_gates,
        }
        self.checkpoints.save(
            epochs, self.stack, [], {**notes, "notes": self.notes, "seconds": self.seconds}
        )
        self.saved = time.perf_counter()

    def _resumed(self) -> int:
        """Loads the last checkpoint; says how many epochs it has behind it."""
        notes: dict[str, Any] = {}
        first = 0
        self.first_gates = [self.readings.histogram(place) for place in range(len(self.members))]
        if self.checkpoints is not None:
            first, notes = self.checkpoints.resume(self.stack, [])
        if first:
            self.epochs = [[Epoch.from_json(each) for each in one] for one in notes["epochs"]]
            self.notes, self.seconds = notes["notes"], notes["seconds"]
            self.first_gates = [tuple(each) for each in notes["first_gates"]]
        self.readings.take(
            0, [0.0] * len(self.members), [0.0] * len(self.members)
        )  # flips count from here
        return first


def _check_teacher(members: Sequence[Member], opinion: Opinion | None) -> None:
    asked = any(member.share for member in members)
    if asked and opinion is None:
        raise ValueError(
            "a member has a share of a teacher's opinion, but there is no teacher; give one"
        )
    if opinion is not None and not asked:
        raise ValueError(
            "there is a teacher, but no member has a share of its opinion; set Member.share"
        )
    if (
        opinion is not None
        and (widest := max(member.run.shift for member in members)) > opinion.pixels
    ):
        raise ValueError(
            f"the teacher was asked about shifts of {opinion.pixels} pixels, a member has {widest}"
        )
    if opinion is not None and (vary := strength(members)) not in (0, opinion.vary):
        raise ValueError(
            f"the teacher was asked about images varied by {opinion.vary}, a member has {vary}"
        )
