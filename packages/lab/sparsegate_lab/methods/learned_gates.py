"""Learned gates, the method of the paper: Srinivas, Subramanya and Babu, Training Sparse Neural Networks, 2016."""

from __future__ import annotations

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
from sparsegate_lab.method import Judge, Method

TARGETS_OWN = ("penalty", "gate_lr", "ramp", "freeze")  # what a target finds or says itself
DRAWS: dict[str, Draw] = {"threshold": Threshold(), "sample": Sample()}
UPDATES = ("apart", "together", "small")
CONNECTED = 2  # dimensions of a fully connected layer's weights


@dataclass(frozen=True)
class LearnedGates(Method):
    """A gate on every weight, learned together with the weights."""

    shards: ClassVar[bool] = True

    # Differs from the paper: 1. the price is a mean over all gates, not a sum. 2. the gates have an optimiser and a
    # learning rate of their own. 3. the price rises over the first part of training. 4. the gates stop before the end.

    penalty: Penalty = field(default_factory=Penalty)
    """What open and undecided gates cost."""

    draw: Literal["threshold", "sample"] = "threshold"
    """How the mask comes from the gates in training: thresholded at 0.5, or drawn with the gate as probability."""

    start: float = 0.6
    """The gates' first value."""

    keep: float | None = None
    """For pretrained weights: the fraction of each layer's largest weights that start open, the others at 0.49."""

    keeps: tuple[tuple[str, float], ...] = ()
    """Fractions for weights with names like these, such as conv* 1.0; the first counts; graded, keep or start else."""

    graded: bool = False
    """For pretrained weights: gates not in keeps start open, lower if a weight matters less in its layer (LAMP)."""

    only: tuple[str, ...] = ("*",)
    """Patterns of the weights that get gates, such as fc1.*"""

    gate_lr: float = 3.0
    """The gates' first learning rate; a cosine takes it to zero."""

    gate_momentum: float = 0.9
    """The gates' momentum."""

    ramp: float = 0.5
    """Fraction of training over which the price rises from zero to its full height."""

    freeze: float = 0.9
    """Fraction of training after which the gates stand still and only the weights move."""

    fade: bool = False
    """Let the network's own dropout fall with the weights left in fully connected layers, after every epoch."""

    update: Literal["apart", "together", "small"] = "apart"
    """Weights and gates by two optimisers, by one in one pass (faster on a GPU), or that with gates in 16 bits."""

    target: Target = field(default_factory=Target)
    """What is wanted, in the place of penalty, gate_lr, ramp and freeze; nothing unless set."""

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
                f"ramp is in [0, 1] and freeze in (0, 1], got ramp={self.ramp}, freeze={self.freeze}"
            )
        if not (self.gate_lr >= 0 and 0 <= self.gate_momentum < 1):
            raise ValueError(
                f"gate_lr is zero or more and gate_momentum in [0, 1), got {self.gate_lr} and {self.gate_momentum}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts gates on the chosen weights."""
        gate(model, draw=DRAWS[self.draw], start=self._start(), select=Select(names=self.only))
        if self.update != "apart":
            take_over_(model, small=self.update == "small")
        if self.fade:
            fade_dropout_(model)
            self._fade_(model)
        return model

    def weights(self, model: nn.Module) -> list[nn.Parameter]:
        """Everything but the gates."""
        return weights(model)

    def sgd(
        self, model: nn.Module, *, lr: float, momentum: float, weight_decay: float
    ) -> Optimizer:
        """SGD on the weights, or on weights and gates together."""
        if self.update == "apart":
            return super().sgd(model, lr=lr, momentum=momentum, weight_decay=weight_decay)
        return GatedSGD(
            model,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            gate_lr=self.gate_lr,
            gate_momentum=self.gate_momentum,
            penalty=self.penalty,
        )

    def optimizer(self, model: nn.Module) -> Optimizer | None:
        """The gates' own optimiser, which adds the price, if it is apart."""
        if self.update != "apart":
            return None
        if self.target:
            return GateSGD(model, momentum=self.gate_momentum)
        return GateSGD(model, lr=self.gate_lr, momentum=self.gate_momentum, penalty=self.penalty)

    def set_out(
        self, model: nn.Module, optimizer: Optimizer | None, judge: Judge, steps: int
    ) -> None:
        """Gives the gates' optimiser its target."""
        if self.target:
            assert isinstance(optimizer, GateSGD)
            optimizer.aim(model, self.target, steps=steps, judge=judge.accuracy)

    def settles_at(self) -> float:
        """When the gates stand still."""
        return self.target.freeze if self.target else self.freeze

    def remarks(self, optimizer: Optimizer | None) -> tuple[str, ...]:
        """The price that a target led to, and the way that it took."""
        if not self.target or not isinstance(optimizer, GateSGD):
            return ()
        return str(optimizer.found), optimizer.found.how_to_repeat

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Sets the price and the gates' learning rate for this moment."""
        if self.target:
            return
        assert isinstance(optimizer, GateSGD | GatedSGD)
        optimizer.price = ramp(progress, over=self.ramp)
        optimizer.gate_lr = self.gate_lr * cosine(progress, until=self.freeze)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Lets dropout fade."""
        if self.fade:
            self._fade_(model)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        restore_dropout_(model)
        return finish(model)

    @torch.no_grad()
    def _fade_(self, model: nn.Module) -> None:
        connected = [each for each in require_gates(model).values() if each.gate.ndim == CONNECTED]
        if not connected:
            raise ValueError(
                "dropout fades with fully connected layers, and none has gates; leave fade out"
            )
        left = sum(whole(each.draw.keep(each.gate)) * each.gate.numel() for each in connected)
        set_left_(model, left / sum(each.gate.numel() for each in connected))

    def _check_target(self) -> None:
        kinds = {each.name: each for each in fields(self)}
        defaults = {
            name: Penalty() if name == "penalty" else kinds[name].default for name in TARGETS_OWN
        }
        idle = [name for name, value in defaults.items() if getattr(self, name) != value]
        if self.target and idle:
            raise ValueError(
                f"with a target, {' and '.join(idle)} would have no effect; leave one or the other out"
            )
        if not self.target and self.target != Target():
            parts = [
                each.name
                for each in fields(Target)
                if getattr(self.target, each.name) != each.default
            ]
            raise ValueError(
                f"{' and '.join(parts)} of a target would have no effect; ask for keep, weights or another"
            )
        if self.target.listen and (self.graded or self.keep is not None or self.keeps):
            raise ValueError(
                "gates that listen get their places from the loss; leave keep, keeps and graded out"
            )
        if self.target and self.update != "apart":
            raise ValueError(
                f"a target moves the gates by themselves, got update {self.update}; use update apart"
            )

    def _start(self) -> Start | dict[str, Start]:
        if self.graded and self.keep is not None:
            raise ValueError(
                "graded gates all start open, and keep closes some; leave one out, or use keeps for some"
            )
        others: Start = Graded() if self.graded else Constant(self.start)
        if self.keep is not None:
            others = LargestWeights(keep=self.keep)
        named: dict[str, Start] = {
            pattern: LargestWeights(keep=keep) for pattern, keep in self.keeps
        }
        return {**named, "*": others} if named else others
