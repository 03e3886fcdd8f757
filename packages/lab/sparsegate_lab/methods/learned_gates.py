"""Learned gates: Srinivas, Subramanya and Babu, Training Sparse Neural Networks, 2016."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from sparsegate.gates import (
    Constant,
    Draw,
    Graded,
    LargestWeights,
    Sample,
    Select,
    Start,
    Threshold,
    finish,
    gate,
    require_gates,
    weights,
)
from sparsegate.optimizers import GatedSGD, GateSGD, take_over_
from sparsegate.price import Penalty
from sparsegate.schedule import cosine, ramp
from sparsegate.sharded import whole
from sparsegate.target import Target
from sparsegate_lab.layers import fade_dropout_, restore_dropout_, set_left_
from sparsegate_lab.method import Judge, Method, Training, scale_lr_

SET_BY_TARGET = ("penalty", "gate_lr", "ramp", "freeze")
DRAWS: dict[str, Draw] = {"threshold": Threshold(), "sample": Sample()}
UPDATES = ("apart", "together", "small")
IDLE_IN_OLD_RECORDS = tuple(  # the defaults then, where no target asked for anything
    Target(travel=travel, begin=0.15, reach=0.6) for travel in (10.0, None)
)
CONNECTED = 2  # number of dimensions of a fully connected layer's weights


@dataclass(frozen=True)
class LearnedGates(Method):
    """Learns a gate on every weight, together with the weights."""

    shards: ClassVar[bool] = True

    # Differs from the paper: 1. the penalty is a mean over all gates, not a sum. 2. the gates have
    # a separate optimizer and learning rate. 3. the penalty rises over the first part of training.
    # 4. the gates are frozen before the end.

    penalty: Penalty = field(default_factory=Penalty)
    """Penalty on open and on undecided gates."""

    draw: Literal["threshold", "sample"] = "threshold"
    """How training gets the mask: threshold the gates at 0.5, or sample them as probabilities."""

    start: float = 0.6
    """Initial value of the gates."""

    keep: float | None = None
    """For pretrained weights: fraction of each layer's largest weights whose gates start open."""

    keeps: tuple[tuple[str, float], ...] = ()
    """`keep` by name pattern, such as conv* 1.0; the first match counts."""

    graded: bool = False
    """For pretrained weights: gates start open, lower for less important weights (LAMP)."""

    only: tuple[str, ...] = ("*",)
    """Patterns of the weights that get gates, such as fc1.*"""

    gate_lr: float = 3.0
    """Initial learning rate of the gates; it follows a cosine to zero."""

    gate_momentum: float = 0.9
    """Momentum of the gates."""

    ramp: float = 0.5
    """Fraction of training over which the penalty rises from zero to its full weight."""

    freeze: float = 0.9
    """Fraction of training before the gates are frozen and only the weights train on."""

    fade: bool = False
    """Lower the network's dropout after every epoch, with the weights of fully connected layers."""

    update: Literal["apart", "together", "small"] = "apart"
    """Two optimizers, one for both (faster on a GPU), or one with 16-bit gates."""

    target: Target = field(default_factory=Target)
    """The wanted size or accuracy, instead of penalty, gate_lr, ramp and freeze."""

    def __post_init__(self) -> None:
        self._start()
        self._check_target()
        if self.draw not in DRAWS:
            raise ValueError(f"draw is one of {', '.join(DRAWS)}, got {self.draw!r}")
        if self.update not in UPDATES:
            raise ValueError(f"update is one of {', '.join(UPDATES)}, got {self.update!r}")
        if self.update != "apart" and self.draw != "threshold":
            raise ValueError(
                f"update {self.update} needs draw threshold, got {self.draw}; use update apart"
            )
        if not (0 <= self.ramp <= 1 and 0 < self.freeze <= 1):
            raise ValueError(
                "ramp is in [0, 1] and freeze in (0, 1], "
                f"got ramp={self.ramp}, freeze={self.freeze}"
            )
        if not (0 <= self.gate_lr < math.inf and 0 <= self.gate_momentum < 1):
            raise ValueError(
                "gate_lr is finite and zero or more, and gate_momentum in [0, 1), "
                f"got {self.gate_lr} and {self.gate_momentum}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds gates to the chosen weights."""
        gate(model, draw=DRAWS[self.draw], start=self._start(), select=Select(names=self.only))
        if self.update != "apart":
            take_over_(model, small=self.update == "small")
        if self.fade:
            fade_dropout_(model)
            self._fade_(model)
        return model

    @property
    def freezes_at(self) -> float:
        """Progress from which the gates are frozen."""
        return self.target.freeze if self.target else self.freeze

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """The run's SGD on the weights and one optimizer for the gates, or one for both."""
        if self.update == "apart":
            return [training.sgd(weights(model)), self._gate_optimizer(model, training)]
        return [
            GatedSGD(
                model,
                lr=training.lr,
                momentum=training.momentum,
                weight_decay=training.weight_decay,
                gate_lr=self.gate_lr,
                gate_momentum=self.gate_momentum,
                penalty=self.penalty,
            )
        ]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Sets both learning rates and the factor on the penalty; a target sets the last two."""
        scale_lr_(optimizers[0], cosine(progress))
        if self.target:
            return
        gates = optimizers[-1]
        assert isinstance(gates, GateSGD | GatedSGD)
        gates.price = ramp(progress, over=self.ramp)
        gates.gate_lr = self.gate_lr * cosine(progress, until=self.freeze)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Lowers the dropout."""
        if self.fade:
            self._fade_(model)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        restore_dropout_(model)
        return finish(model)

    def _gate_optimizer(self, model: nn.Module, training: Training) -> GateSGD:
        if not self.target:
            momentum = self.gate_momentum
            return GateSGD(model, lr=self.gate_lr, momentum=momentum, penalty=self.penalty)
        return GateSGD(
            model,
            momentum=self.gate_momentum,
            target=self.target,
            steps=training.steps,
            judge=training.judge.accuracy,
        )

    @torch.no_grad()
    def _fade_(self, model: nn.Module) -> None:
        connected = [each for each in require_gates(model).values() if each.gate.ndim == CONNECTED]
        if not connected:
            raise ValueError(
                "fade needs gates on fully connected layers, and none has gates; leave fade out"
            )
        left = sum(whole(each.draw.keep(each.gate)) * each.gate.numel() for each in connected)
        set_left_(model, left / sum(each.gate.numel() for each in connected))

    def _check_target(self) -> None:
        if self.target:
            self._check_with_target()
        elif self.target in IDLE_IN_OLD_RECORDS:
            object.__setattr__(self, "target", Target())
        elif self.target != Target():
            parts = _changed(self.target, [each.name for each in fields(Target)])
            raise ValueError(
                f"{' and '.join(parts)} of a target would have no effect; "
                "ask for keep, weights or another"
            )
        if self.target.listen and (self.graded or self.keep is not None or self.keeps):
            raise ValueError(
                "with listen, the loss chooses which gates open; leave keep, keeps and graded out"
            )

    def _check_with_target(self) -> None:
        if idle := _changed(self, SET_BY_TARGET):
            raise ValueError(
                f"with a target, {' and '.join(idle)} would have no effect; "
                "leave one or the other out"
            )
        if self.update != "apart":
            raise ValueError(
                f"a target needs a separate optimizer for the gates, got update {self.update}; "
                "use update apart"
            )

    def _start(self) -> Start | dict[str, Start]:
        if self.graded and self.keep is not None:
            raise ValueError(
                "graded opens all gates, and keep closes some; leave one out, or use keeps for some"
            )
        others: Start = Graded() if self.graded else Constant(self.start)
        if self.keep is not None:
            others = LargestWeights(keep=self.keep)
        named: dict[str, Start] = {
            pattern: LargestWeights(keep=keep) for pattern, keep in self.keeps
        }
        return {**named, "*": others} if named else others


def _changed(settings: LearnedGates | Target, names: Sequence[str]) -> list[str]:
    """Those of some settings that are not at their default."""
    defaults = {
        each.name: Penalty() if each.name == "penalty" else each.default
        for each in fields(settings)
    }
    return [name for name in names if getattr(settings, name) != defaults[name]]
