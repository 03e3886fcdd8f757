"""The training loop of many members, from their last checkpoint to their records."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sparsegate.distil import soft_loss
from sparsegate_lab.data import Dataset
from sparsegate_lab.record import Epoch
from sparsegate_lab.train import Checkpoints

from .inputs import Batch, ManyInputs
from .member import Member, check_agreement, strength
from .price import cut_, steered
from .reading import Readings, accuracies
from .schedule_table import NUM_KNOBS, knob_table
from .shrinking import Shrinking
from .stack import Stack
from .teacher import Opinion
from .update import ManyRates, can_fuse, move_, move_fused_


class ManyWatcher:
    """CONTRACT: watches the training of many members; every method may be overridden."""

    def began(self, members: Sequence[Member], step: int, steps: int) -> None:
        """Training begins or resumes at a step."""

    def stepped(self, step: int) -> None:
        """The steps up to this number are done or queued on the device."""

    def measured(self, epochs: Sequence[Epoch]) -> None:
        """An epoch has ended; one entry per member."""

    def closed(self) -> None:
        """No more calls will come."""


class ManyLoop:
    """The training of all members, in one process on one device."""

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
        """Takes the remaining steps."""
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
            # The CPU draws the next epoch while a GPU is still busy with this one.
            drawn = self.inputs.drawn(number + 1) if number + 1 < epochs else None
            self._measure(number + 1)
            self.seconds += time.perf_counter() - began
            self._checkpoint(number + 1, last=number + 1 == epochs)
            self.watch.measured([each[-1] for each in self.epochs])
        self._cut(epochs)  # members whose gates are frozen only in the last epoch

    def _epoch(self, number: int, drawn: tuple[Tensor, Tensor]) -> None:
        count = self.inputs.steps
        self.inputs.load(drawn)
        self.steps.begin(knob_table(self.members, number, count, self.stack.factor.tolist()))
        for step in range(number * count, (number + 1) * count):
            self.steps.take(step)
            self.watch.stepped(step + 1)

    def _cut(self, number: int) -> bool:
        """Cuts the members whose gates have just been frozen; returns whether there were any."""
        due = [
            index
            for index, member in enumerate(self.members)
            if member.most is not None and number == member.frozen_at
        ]
        for index in due:
            cut_(self.stack, index, self.example)
        return bool(due)

    def _forget_speed_(self, number: int) -> None:
        """Resets the momentum of weights whose steps are adaptive from now on."""
        # The old momentum divided by the size of a single gradient has no bound.
        for index, member in enumerate(self.members):
            if member.late.adapt and number == member.frozen_at:
                for each in self.stack.params.values():
                    each.speed[index] = 0.0

    def _shrink(self, number: int, *, cut: bool) -> None:
        """Removes units without readers from the steps."""
        frozen = all(number >= member.frozen_at for member in self.members)
        if self.shrinking.shrunk_(frozen=frozen, cut=cut):
            self.steps.anew()

    def _measure(self, number: int) -> None:
        losses = [float(loss) / self.inputs.steps for loss in self.steps.losses.cpu()]
        validation = accuracies(
            self.stack, self.stack.finished(), self.splits["validation"], self.normalise
        )
        epochs, closed = self.readings.take(number, losses, validation)
        for index, (epoch, notes) in enumerate(zip(epochs, closed, strict=True)):
            self.epochs[index].append(epoch)
            self._steer(index)
            if not math.isfinite(epoch.loss):
                notes = [
                    *notes,
                    f"the loss became {epoch.loss}; lower lr or the gates' learning rate",
                ]
            self.notes[index] += [note for note in notes if note not in self.notes[index]]

    def _steer(self, index: int) -> None:
        member, factor, epochs = self.members[index], self.stack.factor, self.epochs[index]
        kept, progress = [each.kept for each in epochs], epochs[-1].epoch / member.run.epochs
        factor[index] = steered(float(factor[index]), member, kept, progress)

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
        """Loads the last checkpoint; returns how many epochs are done."""
        notes: dict[str, Any] = {}
        first = 0
        self.first_gates = [self.readings.histogram(index) for index in range(len(self.members))]
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
        raise ValueError("Member.share needs a teacher, got none; pass teacher=")
    if opinion is not None and not asked:
        raise ValueError("a teacher was given, but Member.share is 0 for every member; set it")
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


WARM_UP = 3  # steps before recording, as torch asks for


class Steps:
    """Takes steps; what differs between steps is read from tensors on the device."""

    def __init__(
        self, stack: Stack, inputs: ManyInputs, opinion: Opinion | None, device: torch.device
    ) -> None:
        self.stack, self.inputs, self.opinion, self.device = stack, inputs, opinion, device
        members = stack.members
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(len(members), device=device)
        self.table = torch.zeros(inputs.steps, NUM_KNOBS, len(members), device=device)
        self.momentum = torch.tensor([member.run.momentum for member in members], device=device)
        moving = [getattr(member.run.method, "gate_momentum", 0.0) for member in members]
        self.gate_momentum = torch.tensor(moving, device=device)
        self.share = torch.tensor([member.share for member in members], device=device)
        self.temperature = torch.tensor([member.temperature for member in members], device=device)
        self.bf16 = members[0].run.precision == "bf16"
        self.move = move_fused_ if device.type == "cuda" and can_fuse() else move_
        self.graph: torch.cuda.CUDAGraph | None = None

    def begin(self, table: Float[Tensor, "step knob member"]) -> None:
        """Prepares the first step of an epoch with these settings."""
        self.table.copy_(table)
        self.at.zero_()
        self.losses.zero_()

    def anew(self) -> None:
        """Prepares for weights of other shapes."""
        self.graph = None

    def take(self, step: int) -> None:
        """Takes the next step; `step` counts from the beginning of training."""
        self.stack.draw_noise(step)
        if self.device.type == "cuda" and self.graph is None:
            self.graph = self._recorded()
        if self.graph is None:
            self._step()
        else:
            self.graph.replay()

    def _step(self) -> None:
        leaves = self.stack.leaves()
        loss = self._loss(self.inputs.batch(self.at), leaves)
        grads = torch.autograd.grad(loss.sum(), list(leaves.values()))
        rates = self._rates()
        for param, grad in zip(self.stack.active.values(), grads, strict=True):
            self.move(param, grad, rates)
        self.losses += loss.detach()
        self.at += 1

    def _loss(self, batch: Batch, leaves: dict[str, Tensor]) -> Float[Tensor, " member"]:
        """Each member's mean loss over its part of the batch."""
        members = len(self.stack.members)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            logits = self.stack.run(batch.images, leaves)
        hard = (
            F.cross_entropy(logits.float(), batch.labels, reduction="none")
            .view(members, -1)
            .mean(1)
        )
        if self.opinion is None:
            return hard
        wanted = self.opinion(batch.chosen, batch.offsets)
        temperature = self.temperature.repeat_interleave(self.inputs.size)
        soft = soft_loss(logits.float(), wanted, temperature).view(members, -1).mean(1)
        return (1 - self.share) * hard + self.share * soft

    def _rates(self) -> ManyRates:
        lr, gate_lr, price, blend, decay, adapt = self.table.index_select(0, self.at)[0].unbind(0)
        return ManyRates(lr, self.momentum, decay, gate_lr, self.gate_momentum, price, blend, adapt)

    def _recorded(self) -> torch.cuda.CUDAGraph:
        """Returns a recorded graph of one step; the warm-up steps are undone."""
        kept = [*self.stack.moving(), self.at, self.losses]
        before = [tensor.clone() for tensor in kept]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        torch._foreach_copy_(kept, before)
        return graph
