"""The training loop, the same for every method."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

import torch

from sparsegate.gates import ClosedLayer, NothingRemoved, Reading
from sparsegate.target import UnreachableTarget
from sparsegate_lab.record import Epoch, Record
from sparsegate_runtime.schema import parse_fields

from .checkpoint import Checkpoint
from .diverged import check_loss, check_weights
from .folder import RunFolder
from .interrupts import Interrupts
from .learner import Learner
from .make_record import make_record


@dataclass
class History:
    """What a checkpoint remembers of a run, in addition to its tensors."""

    epochs: tuple[Epoch, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    first_gates: tuple[int, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """How many images and classes the data had."""


class Loop:
    """One process's work on a run, from its last checkpoint to its record."""

    def __init__(
        self, learner: Learner, folder: RunFolder, *, num_weights: int, baseline: float | None
    ) -> None:
        self.run, self.learner, self.folder = learner.run, learner, folder
        self.inputs, self.notes, self.watch = learner.inputs, learner.notes, learner.notes.watch
        self.num_weights, self.baseline = num_weights, baseline
        self.history = History(counts=self.inputs.data.counts)
        self.interrupts = Interrupts()

    def train(self, command: str, checkpoint: Checkpoint | None) -> Record:
        """Takes the remaining steps, then finishes.

        Ctrl-C ends the training between two steps. The files of a training that has ended are
        written first.

        Args:
            command: the words of the command, for the record.
            checkpoint: where to continue; from the beginning unless given.
        """
        with self.interrupts.postponed():
            return self._train(command, checkpoint)

    def _train(self, command: str, checkpoint: Checkpoint | None) -> Record:
        first = self._resume(checkpoint)
        for number in range(first, self.run.epochs):
            if self._may_stop():
                break
            began = time.perf_counter()
            with self.notes.collect(ClosedLayer, UnreachableTarget):
                loss = self._epoch(number)
            check_loss(loss, number + 1, self.run.lr)
            with self.notes.collect():
                self.learner.after_epoch((number + 1) / self.run.epochs)
            check_weights(self.learner.model, number + 1, self.inputs.accelerator)
            epoch = self._measure(number, loss)
            self.history.epochs = (*self.history.epochs, epoch)
            self.history.seconds += time.perf_counter() - began
            if (number + 1) % self.folder.save_every == 0:
                self._save((number + 1) * len(self.inputs.batches))
            self.watch.measured(epoch)
            self.interrupts.check()
        return self._finish(command)

    def _resume(self, checkpoint: Checkpoint | None) -> int:
        """Loads a checkpoint and returns the number of finished epochs."""
        first = 0
        if checkpoint is not None:
            first = checkpoint.step // len(self.inputs.batches)
            self.history = history_of(checkpoint)
            self.notes.texts = list(self.history.notes)
            checkpoint.load_(self.learner.model, self.learner.saved)
        reading = self._read_gates()  # the fraction of flipped gates counts from here
        if checkpoint is None and reading is not None:
            self.history.first_gates = reading.histogram
        step = first * len(self.inputs.batches)
        self.watch.began(self.run, self.folder.path, step, self.learner.steps, self.num_weights)
        for note in self.inputs.data.notes:  # at once, not after a week of training
            self.watch.noted(note)
        for note in checkpoint.damaged if checkpoint is not None else ():
            self.notes.add(note)
        return first

    def _may_stop(self) -> bool:
        """Whether the last epoch was good enough; checked before each, so resumed runs stop too."""
        if not self.history.epochs or self.baseline is None:
            return False
        last, stop = self.history.epochs[-1], self.run.stop
        reached = stop.reached(last.kept, self.num_weights, last.validation, self.baseline)
        if reached:
            words = stop.words(self.baseline)
            self.notes.texts.append(
                f"stopped after epoch {last.epoch} of {self.run.epochs}: {words}"
            )
        return reached

    def _epoch(self, number: int) -> float:
        """Takes the steps of an epoch and returns the mean loss."""
        self.learner.model.train()
        batches = self.inputs.batches.epoch(number)
        total = torch.zeros((), device=self.inputs.accelerator.device)
        for step, (images, labels) in enumerate(batches, start=number * len(batches)):
            total += self.learner.step(step, images, labels)
            self.watch.stepped(step + 1)
            self.interrupts.check()
        return float(self.inputs.accelerator.reduce(total, "mean")) / len(batches)

    def _measure(self, number: int, loss: float) -> Epoch:
        validation = self.inputs.accuracy(self.learner.model, "validation")
        reading = self._read_gates()
        if reading is None:
            return Epoch(number + 1, loss, validation, kept=self.learner.kept())
        ungated = self.num_weights - sum(reading.total.values())
        return Epoch(
            number + 1,
            loss,
            validation,
            kept=sum(reading.kept.values()) + ungated,
            undecided=reading.undecided,
            flipped=reading.flipped,
            keep=reading.keep,
            variance=reading.variance,
            gates=reading.histogram,
            layers=dict(reading.kept),
        )

    def _read_gates(self) -> Reading | None:
        if self.learner.census is None:
            return None
        with self.notes.collect():
            return self.learner.census.take()

    def _save(self, step: int) -> None:
        learner, accelerator = self.learner, self.inputs.accelerator
        main = accelerator.is_main_process
        if main or learner.sharded:
            self.history.notes = tuple(self.notes.texts)
            notes = dataclasses.asdict(self.history)
            self.folder.checkpoints.save(step, learner.model, learner.saved, notes, write=main)
        accelerator.wait_for_everyone()

    def _finish(self, command: str) -> Record:
        found = self.learner.found()
        with self.notes.collect(NothingRemoved):
            model = self.learner.finish()
        accelerator = self.inputs.accelerator
        splits = ("validation", "test")
        accuracies = {split: self.inputs.accuracy(model, split) for split in splits}
        model = self.learner.whole(model)
        record = make_record(
            self.run,
            model,
            accuracies=accuracies,
            epochs=self.history.epochs,
            seconds=self.history.seconds,
            command=command,
            processes={"processes": accelerator.num_processes},
            notes=(*self.notes.texts, *found),
            first_gates=self.history.first_gates,
        )
        if accelerator.is_main_process:
            record = self.folder.close(model, record)
        accelerator.wait_for_everyone()
        self.watch.ended(record)
        return record


def history_of(checkpoint: Checkpoint) -> History:
    """The history in a checkpoint's notes."""
    history: History = parse_fields(History, checkpoint.notes, "notes of the checkpoint")
    return history


def check_checkpoint(
    checkpoint: Checkpoint, folder: RunFolder, counts: dict[str, int], epochs: int, batches: int
) -> None:
    """Raises unless a checkpoint fits the run and its data.

    Args:
        checkpoint: the checkpoint.
        folder: the run's folder.
        counts: how many images and classes the data has now.
        epochs: the number of epochs of the run.
        batches: the number of steps of an epoch.
    """
    before = history_of(checkpoint).counts
    for what, count in counts.items():
        if before.get(what, count) != count:
            raise ValueError(
                f"this run was interrupted when its data had {before[what]:,} {what}, and now it "
                f"has {count:,}; bring the old data back, or begin anew: delete {folder.path}"
            )
    step, steps = checkpoint.step, epochs * batches
    if not 0 < step <= steps or step % batches:
        raise ValueError(
            f"the checkpoint of {folder.path} is of step {step}; expected the end of an epoch, a "
            f"multiple of {batches} up to {steps}; delete {folder.checkpoints.folder}"
        )
