"""LASSO: an l1 penalty on weights (Tibshirani 1996), by proximal steps or as a loss term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import add_masks, apply_masks_, masks, remove_masks
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Lasso(Method):
    """Penalizes the absolute value of every weight, so that many become zero."""

    # Differs from the textbook: 1. SGD has momentum and the proximal step has none: it moves a
    # weight by the learning rate that momentum makes of the run's.

    price: float = 5e-5
    """Factor on the l1 norm of all weights, which is added to the loss."""

    way: Literal["proximal", "penalty"] = "proximal"
    """How the penalty acts: by a proximal step (soft threshold), or as a term of the loss."""

    step: float = 0.3
    """For proximal steps, the length of a first step: the run's lr / (1 - momentum)."""

    until: float = 1.0
    """Fraction of training with a penalty; afterwards zeros are frozen and the others grow back."""

    cut: float = 1e-3
    """For the loss term, which makes no exact zeros: smaller weights are removed at `until`."""

    def __post_init__(self) -> None:
        if self.way not in ("proximal", "penalty"):
            raise ValueError(f"way is proximal or penalty, got {self.way!r}")
        if not (self.price >= 0 and self.step > 0 and self.cut >= 0):
            raise ValueError(
                "price and cut are zero or more and step above zero, "
                f"got {self.price}, {self.cut} and {self.step}"
            )
        if not 0 < self.until <= 1:
            raise ValueError(f"until is a fraction in (0, 1], got {self.until}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        return add_masks(model)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """The penalty, if it is a term of the loss."""
        if self.way != "penalty" or progress >= self.until:
            return None
        norms = [weight.abs().sum() for _, weight, _ in masks(model).values()]
        return self.price * torch.stack(norms).sum()

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Sets the learning rate; removes small weights, or only zeros, when it is time."""
        super().before_step(model, optimizers, progress)
        if progress >= self.until:
            self._cut_(model)

    @torch.no_grad()
    def after_step(self, model: nn.Module, progress: float) -> None:
        """Takes the proximal step; keeps removed weights at zero."""
        apply_masks_(model)
        if self.way == "proximal" and progress < self.until:
            distance = self.price * self.step * cosine(progress)
            for _, weight, _ in masks(model).values():
                weight.copy_(F.softshrink(weight, distance))

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        self._cut_(model)
        return remove_masks(model)

    @torch.no_grad()
    def _cut_(self, model: nn.Module) -> None:
        lowest = self.cut if self.way == "penalty" else 0.0
        for _, weight, mask in masks(model).values():
            mask &= weight.abs() > lowest
        apply_masks_(model)
