"""LASSO: an l1 price on weights (Tibshirani 1996), paid by a proximal step or as a plain penalty with a final cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate_lab.layers import add_masks, apply_masks_, masks, remove_masks
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Lasso(Method):
    """Charges every weight for its size, so that many become zero and all become smaller."""

    # Differs from the textbook: 1. steps have momentum, which the proximal step does not see: it moves a weight by the
    # learning rate that momentum makes of the run's.

    price: float = 5e-5
    """What a weight costs for each unit of its size; the sum over all weights is added to the loss."""

    way: Literal["proximal", "penalty"] = "proximal"
    """How the price is paid: by a step straight towards zero that stops there, or by a term of the loss."""

    step: float = 0.3
    """For the proximal way, the length of a first step: the run's lr / (1 - momentum)."""

    until: float = 1.0
    """Fraction of training after which no price is paid and zeros stay zero, so that the others can grow back."""

    cut: float = 1e-3
    """For the penalty, which never makes exact zeros: weights below this size are cut at `until`."""

    def __post_init__(self) -> None:
        if self.way not in ("proximal", "penalty"):
            raise ValueError(f"way is proximal or penalty, got {self.way!r}")
        if not (self.price >= 0 and self.step > 0 and self.cut >= 0):
            raise ValueError(
                f"price and cut are zero or more and step above zero, got {self.price}, {self.cut} and {self.step}"
            )
        if not 0 < self.until <= 1:
            raise ValueError(f"until is a fraction in (0, 1], got {self.until}")

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts masks beside all weights."""
        return add_masks(model)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """The price, if it is paid as a term of the loss."""
        if self.way != "penalty" or progress >= self.until:
            return None
        return (
            self.price
            * torch.stack([weight.abs().sum() for _, weight, _ in masks(model).values()]).sum()
        )

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Cuts what is small, or zero already, if it is time."""
        if progress >= self.until:
            self._cut_(model)

    @torch.no_grad()
    def after_step(self, model: nn.Module, progress: float) -> None:
        """Takes every weight a step towards zero, if the price is paid so; keeps cut weights at zero."""
        apply_masks_(model)
        if self.way == "proximal" and progress < self.until:
            distance = self.price * self.step * self.lr_factor(progress)
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
