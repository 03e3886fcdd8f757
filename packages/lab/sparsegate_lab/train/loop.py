"""The training loop, the same for every method, on accelerate."""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.gates import Census, ClosedLayer, Reading, gates
from sparsegate.moving_average import MovingAverage
from sparsegate.schedule import ramp
from sparsegate.target import UnreachableTarget
from sparsegate_lab.data import Dataset
from sparsegate_lab.record import Epoch, Record

from .batches import Batches
from .diverged import check_finite
from .evaluate import accuracy, count_biases, count_layers, count_sizes
from .folder import RunFolder
from .judge import SplitJudge
from .network import distil_of
from .network_input import augments_of, view_of
from .placement import elsewhere, placed
from .provenance import machine, versions
from .run import Run
from .seed import fold, seed_
from .shard import Shards
from .watch import Watcher


class Loop:
    """One process's work on a run, from its last checkpoint to its record."""

    def __init__(
        self,
        run: Run[Any],
        data: Dataset,
        model: nn.Module,
        num_weights: int,
        accelerator: Accelerator,
        place: RunFolder,
        watch: Watcher,
        baseline: float | None = None,
        *,
        shard: bool = False,
    ) -> None:
        self.run, self.place, self.accelerator = run, place, accelerator
        self.watch = watch if accelerator.is_main_process else Watcher()
        device = accelerator.device
        self.splits = placed(data, device)
        self.normalise = view_of(run, data)
        self.batches = Batches(
            self.splits["train"],
            self.normalise,
            augments_of(run),
            run.batch_size,
            run.seed,
            accelerator.process_index,
            accelerator.num_processes,
            elsewhere(self.splits["train"], device),
            compiled=run.compile,
        )
        self.num_weights, self.baseline, self.shard = num_weights, baseline, shard
        self.rebuilt = False
        self.notes, self.data_notes, self.counts = list(data.notes), data.notes, data.counts
        self._shown: dict[str | tuple[str, type[Warning], int], int] = {}
        self._install(model)
        self.teacher = distil_of(run, data.num_classes, device) if run.distil else None
        self.epochs: list[Epoch] = []
        self.seconds = 0.0
        self.first_gates: tuple[int, ...] = ()

    def train(self, command: str) -> Record:
        """Runs the steps that are left, then finishes."""
        self.place.check_data(self.counts)
        self._rebuild(self.place.checkpoints.last_step() // len(self.batches))
        step, notes = self.place.checkpoints.resume(self.model, self._saved())
        self.epochs = [Epoch.from_json(each) for each in notes.get("epochs", [])]
        self.notes, self.seconds = notes.get("notes", self.notes), notes.get("seconds", 0.0)
        self.first_gates = tuple(notes.get("first_gates", ()))
        reading = self._read_gates()  # also, so that the next flip rate counts from here
        if step == 0 and reading is not None:
            self.first_gates = reading.histogram
        steps = self.run.epochs * len(self.batches)
        self.watch.began(self.run, self.place.path, step, steps, self.num_weights)
        for note in (
            self.data_notes
        ):  # at once: what is wrong with the data is worth knowing before a week's work
            self.watch.noted(note)
        for number in range(step // len(self.batches), self.run.epochs):
            if self._may_stop():
                break
            began = time.perf_counter()
            with self._noting(ClosedLayer, UnreachableTarget):
                loss = self._epoch(number)
            check_finite(loss, number + 1, self.run.lr)
            with self._noting():
                self.run.method.after_epoch(self.model, self.judge, (number + 1) / self.run.epochs)
            self._rebuild(number + 1)
            self.epochs.append(self._measure(number, loss))
            self.seconds += time.perf_counter() - began
            if (number + 1) % self.place.save_every == 0:
                self._checkpoint((number + 1) * len(self.batches))
            self.watch.measured(self.epochs[-1])
        return self._finish(command)

    def _may_stop(self) -> bool:
        """Whether the last epoch was good enough; asked before each, so that a resumed run stops there too."""
        if not self.epochs or self.baseline is None:
            return False
        last, stop = self.epochs[-1], self.run.stop
        reached = stop.reached(last.kept, self.num_weights, last.validation, self.baseline)
        if reached:
            self.notes.append(
                f"stopped after epoch {last.epoch} of {self.run.epochs}: {stop.words(self.baseline)}"
            )
        return reached

    def _install(self, model: nn.Module) -> None:
        """Makes a model the one that is trained, with new optimisers."""
        run, device = self.run, self.accelerator.device
        self.shards = Shards(model, device) if self.shard else None
        if self.shards is None:
            model = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model = model
        self.wrapped = self.model if self.shard else self.accelerator.prepare_model(self.model)
        self.forward = torch.compile(self.wrapped) if run.compile else self.wrapped
        self.weights = run.method.sgd(
            self.model, lr=run.lr, momentum=run.momentum, weight_decay=run.weight_decay
        )
        self.own = run.method.optimizer(self.model)
        self.optimizers = [self.weights] if self.own is None else [self.weights, self.own]
        self.census = Census(self.model) if gates(self.model) else None
        self.judge = SplitJudge(
            self.model,
            self.splits["train"],
            self.splits["validation"],
            self.normalise,
            self.accelerator,
        )
        self.average = None if run.average is None else MovingAverage(self.model, decay=run.average)
        with self._noting():
            run.method.set_out(self.model, self.own, self.judge, run.epochs * len(self.batches))

    def _saved(self) -> list[Optimizer]:
        """What is in a checkpoint beside the model."""
        return self.optimizers if self.average is None else [*self.optimizers, self.average]

    def _rebuild(self, epochs: int) -> None:
        """Gives the model the layers that it has after so many epochs."""
        at = self.run.method.rebuild_at()
        if at is not None and not self.rebuilt and epochs >= at * self.run.epochs:
            model = self.accelerator.unwrap_model(self.wrapped, keep_fp32_wrapper=False)
            self.accelerator.free_memory()  # lets go of the wrapper, which still watches the old parameters
            self._install(self.run.method.rebuild(model))
            self.rebuilt = True

    def _epoch(self, number: int) -> float:
        self.model.train()
        batches, count = self.batches.epoch(number), len(self.batches)
        total = torch.zeros((), device=self.accelerator.device)
        for index, batch in enumerate(batches):
            total += self._step(number * count + index, *batch)
            self.watch.stepped(number * count + index + 1)
        return float(self.accelerator.reduce(total, "mean")) / count

    def _step(self, step: int, images: Tensor, labels: Tensor) -> Tensor:
        progress = step / (self.run.epochs * len(self.batches))
        method = self.run.method
        # Seeded anew at every step: a resumed run draws what an uninterrupted one draws.
        seed_(
            fold(self.run.seed, "step", step, self.accelerator.process_index),
            self.accelerator.device,
        )
        for group in self.weights.param_groups:
            group["lr"] = (
                self.run.lr * ramp(progress, over=self.run.warmup) * method.lr_factor(progress)
            )
        method.before_step(self.model, self.own or self.weights, progress)
        with self.accelerator.autocast():
            logits = self.forward(images)
            if self.teacher:
                loss = self.teacher(logits, images, labels)
            else:
                loss = F.cross_entropy(logits, labels, label_smoothing=self.run.label_smoothing)
        term = method.loss_term(self.model, progress)
        self.accelerator.backward(loss if term is None else loss + term)
        self._temper()
        method.after_backward(self.model, progress)
        self._move()
        method.after_step(self.model, progress)
        if self.average is not None and progress >= (method.settles_at() or 0.0):
            self.average.step()
        return loss.detach()

    def _temper(self) -> None:
        """Gives gradients their true size, or a smaller one."""
        if (scaler := self.accelerator.scaler) is not None:
            for optimizer in self.optimizers:
                scaler.unscale_(optimizer)
        if self.run.clip:
            nn.utils.clip_grad_norm_(self.run.method.weights(self.model), self.run.clip)

    def _move(self) -> None:
        scaler = self.accelerator.scaler
        for optimizer in self.optimizers:
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
            optimizer.zero_grad()
        if scaler is not None:
            scaler.update()

    def _measure(self, number: int, loss: float) -> Epoch:
        validation = accuracy(
            self.model, self.splits["validation"], self.normalise, self.accelerator
        )
        reading = self._read_gates()
        if reading is None:
            return Epoch(number + 1, loss, validation, kept=self._count())
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
        )

    def _count(self) -> int:
        """The weights that would be left if training ended now."""
        model = copy.deepcopy(self.model) if self.shards is None else self.shards.ordinary()
        model.__dict__.pop(
            "forward", None
        )  # accelerate's, under mixed precision: it would run the original
        return sum(layer.kept for layer in count_layers(self.run.method.finish(model)))

    def _read_gates(self) -> Reading | None:
        if self.census is None:
            return None
        with self._noting():
            return self.census.take()

    @contextmanager
    def _noting(self, *kinds: type[Warning]) -> Iterator[None]:
        """Writes warnings into the record, each once; with kinds, only theirs, and the others are shown as ever."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for each in caught:
            if kinds and not issubclass(each.category, kinds):
                warnings.warn_explicit(
                    each.message, each.category, each.filename, each.lineno, registry=self._shown
                )
            elif (note := str(each.message)) not in self.notes:
                self.notes.append(note)
                self.watch.noted(note)

    def _checkpoint(self, step: int) -> None:
        main = self.accelerator.is_main_process
        if main or self.shard:
            notes = {
                "epochs": [vars(each) for each in self.epochs],
                "notes": self.notes,
                "seconds": self.seconds,
                "first_gates": self.first_gates,
                **self.counts,
            }
            self.place.checkpoints.save(step, self.model, self._saved(), notes, write=main)
        self.accelerator.wait_for_everyone()

    def _ordinary(self) -> nn.Module:
        if self.shards is None:
            model: nn.Module = self.accelerator.unwrap_model(self.wrapped, keep_fp32_wrapper=False)
            return model
        return self.shards.ordinary().to(self.accelerator.device)

    def _finish(self, command: str) -> Record:
        remarks = self.run.method.remarks(self.own)
        if self.average is not None:
            self.average.apply_()
        model = self.run.method.finish(self._ordinary())
        num_biases, biases_kept = count_biases(model)
        record = Record(
            name=self.run.name,
            run=self.run.to_json(),
            command=command or " ".join(sys.argv),
            machine=machine() | {"processes": self.accelerator.num_processes},
            versions=versions(),
            layers=count_layers(model),
            num_biases=num_biases,
            biases_kept=biases_kept,
            validation=accuracy(model, self.splits["validation"], self.normalise, self.accelerator),
            test=accuracy(model, self.splits["test"], self.normalise, self.accelerator),
            epochs=tuple(self.epochs),
            seconds=round(self.seconds, 1),
            notes=(*self.notes, *remarks),
            sizes=count_sizes(model),
            first_gates=self.first_gates,
        )
        if self.accelerator.is_main_process:
            record = self.place.close(model, record)
        self.accelerator.wait_for_everyone()
        self.watch.ended(record)
        return record
