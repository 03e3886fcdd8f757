"""Holds a model on its device with its optimizers, and takes training steps."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.gates import Census, gates
from sparsegate.moving_average import MovingAverage
from sparsegate.schedule import ramp
from sparsegate_lab.method import Judge, Training

from .evaluate import count_layers
from .front import Front
from .inputs import Inputs
from .network import distil_of
from .notes import Notes
from .run import Run
from .seed import fold, seed_
from .shard import Shards


@dataclass(frozen=True, eq=False)
class SplitJudge(Judge):
    """Measures on the validation split and shows training images; never reads the test split."""

    model: nn.Module
    inputs: Inputs

    def accuracy(self) -> float:
        """Validation accuracy of the current model, in percent."""
        return self.inputs.accuracy(self.model, "validation")

    def images(self, count: int) -> Tensor:
        """The first training images of the file."""
        part = self.inputs.splits["train"].part(0, count).to(self.inputs.accelerator.device)
        return self.inputs.normalise(part.images)


class Learner:
    """One process's copy of the model in training."""

    def __init__(
        self,
        run: Run[Any],
        model: nn.Module,
        inputs: Inputs,
        notes: Notes,
        *,
        sharded: bool,
        front: Front | None = None,
    ) -> None:
        self.run, self.inputs, self.notes, self.sharded = run, inputs, notes, sharded
        self.accelerator, self.front = inputs.accelerator, front
        self.steps = run.epochs * len(inputs.batches)
        self._install(model)
        device = self.accelerator.device
        classes = inputs.data.num_classes
        self.teacher = distil_of(run, classes, device, front) if run.distil else None

    def step(self, step: int, images: Tensor, labels: Tensor) -> Tensor:
        """Takes one step and returns the loss."""
        run, method, progress = self.run, self.run.method, step / self.steps
        # A seed for every step: a resumed run draws what an uninterrupted one draws.
        device, rank = self.accelerator.device, self.accelerator.process_index
        seed_(fold(run.seed, "step", step, rank), device)
        for group in self.optimizers[0].param_groups:
            group["lr"] = run.lr * ramp(progress, over=run.warmup)
        method.before_step(self.model, self.optimizers, progress)
        with self.accelerator.autocast():
            logits = self.forward(images)
            if self.teacher:
                loss = self.teacher(logits, images, labels)
            else:
                loss = F.cross_entropy(logits, labels, label_smoothing=run.label_smoothing)
        term = method.loss_term(self.model, progress)
        self.accelerator.backward(loss if term is None else loss + term)
        self._clip()
        self._move()
        method.after_step(self.model, progress)
        if self.average is not None and progress >= (method.freezes_at or 0.0):
            self.average.step()
        return loss.detach()

    def after_epoch(self, progress: float) -> None:
        """Lets the method act between two epochs, and adopts the layers that it replaced."""
        before = list(self.model.parameters())
        self.run.method.after_epoch(self.model, self.judge, progress)
        after = list(self.model.parameters())
        if len(before) != len(after) or any(
            one is not other for one, other in zip(before, after, strict=True)
        ):
            model = self._unwrapped()
            self.accelerator.free_memory()  # drops the wrapper, which refers to old parameters
            self._install(model)

    @property
    def saved(self) -> list[Optimizer]:
        """The optimizers that a checkpoint holds; the moving average is one of them."""
        return self.optimizers if self.average is None else [*self.optimizers, self.average]

    def kept(self) -> int:
        """The number of weights that would remain if training ended now."""
        model = copy.deepcopy(self.model) if self.shards is None else self.shards.ordinary()
        # Under mixed precision accelerate sets a forward that would run the original.
        model.__dict__.pop("forward", None)
        layers = count_layers(self.run.method.finish(model))
        return sum(layer.kept for layer in layers) + (self.front.num_kept if self.front else 0)

    def finish(self) -> nn.Module:
        """The finished network, with its averaged weights if the run asks for them.

        A front that was taken out is still missing: `whole` puts it back.
        """
        if self.average is not None:
            self.average.apply_()
        finished: nn.Module = self.run.method.finish(self._unwrapped())
        return finished

    def whole(self, finished: nn.Module) -> nn.Module:
        """The finished network with its front, in place."""
        return finished if self.front is None else self.front.put_back_(finished)

    def found(self) -> tuple[str, ...]:
        """Remarks on the penalty that a target found, if the method has a target."""
        if not getattr(self.run.method, "target", None):
            return ()
        found: Any = next(each.found for each in self.optimizers if hasattr(type(each), "found"))
        return tuple(filter(None, (str(found), found.how_to_repeat)))

    def _install(self, model: nn.Module) -> None:
        """Trains this model from now on, with new optimizers."""
        run, device = self.run, self.accelerator.device
        self.shards = Shards(model, device) if self.sharded else None
        if self.shards is None:
            self.model: nn.Module = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.wrapped = self.accelerator.prepare_model(self.model)
        else:
            self.model = self.wrapped = self.shards.model
        self.forward = torch.compile(self.wrapped) if run.compile else self.wrapped
        self.judge = SplitJudge(self.model, self.inputs)
        with self.notes.collect():
            self.optimizers = run.method.optimizers(
                self.model, Training(run.lr, run.momentum, run.weight_decay, self.steps, self.judge)
            )
        self.census = Census(self.model) if gates(self.model) else None
        self.average = None if run.average is None else MovingAverage(self.model, decay=run.average)

    def _unwrapped(self) -> nn.Module:
        if self.shards is not None:
            return self.shards.ordinary().to(self.accelerator.device)
        model: nn.Module = self.accelerator.unwrap_model(self.wrapped, keep_fp32_wrapper=False)
        return model

    def _clip(self) -> None:
        """Undoes the scaling of gradients, and clips those of the weights."""
        if (scaler := self.accelerator.scaler) is not None:
            for optimizer in self.optimizers:
                scaler.unscale_(optimizer)
        if self.run.clip:
            groups = self.optimizers[0].param_groups
            nn.utils.clip_grad_norm_(
                [param for group in groups for param in group["params"]], self.run.clip
            )

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
