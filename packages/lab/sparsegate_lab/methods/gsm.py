"""Global sparse momentum: Ding et al., Global Sparse Momentum SGD for Pruning Very Deep Neural Networks, 2019."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sparsegate_lab.layers import add_masks, apply_masks_, cut_to_, masks, remove_masks
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class GSM(Method):
    """Lets only the weights that matter most feel the loss, step by step; the others decay, and are cut at the end."""

    # Differs from Ding et al. 2019: 1. the weights are cut before the end and the others train on, since trainings
    # here are too short for the decay to bring all others to zero. 2. one run with one schedule, not a dense
    # training and a second one. 3. momentum and decay are the run's own, the same in both phases.

    keep: float = 0.05
    """Fraction of weights that feel the loss in a step, and that is left at the end."""

    begin: float = 0.3
    """Fraction of training that is dense."""

    cut: float = 0.75
    """Fraction of training after which all but the largest weights are cut."""

    late: float = 0.7
    """Fraction of training up to which the learning rate stays high, so that decay has time; then a cosine to zero."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for a rate of 300 write keep=0.0033"
            )
        if not 0 <= self.begin < self.cut <= 1:
            raise ValueError(
                f"wanted 0 <= begin < cut <= 1, got begin={self.begin}, cut={self.cut}"
            )
        if not 0 <= self.late < 1:
            raise ValueError(f"late is a fraction in [0, 1), got {self.late}")

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts masks beside all weights."""
        return add_masks(model)

    def settles_at(self) -> float:
        """When the cut has been made."""
        return self.cut

    def lr_factor(self, progress: float) -> float:
        """One, then a cosine to zero."""
        return super().lr_factor(max(0.0, progress - self.late) / (1 - self.late))

    def after_backward(self, model: nn.Module, progress: float) -> None:
        """Takes the gradient from all but the weights that change the loss most; the optimiser still decays them."""
        if progress >= self.begin:  # after the cut as many weights are left as are selected
            select_gradients_([each.weight for each in masks(model).values()], self.keep)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps cut weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Cuts, if it is time."""
        if progress >= self.cut - 1e-9:
            cut_to_(
                model,
                self.keep,
                {name: each.weight.detach().abs() for name, each in masks(model).items()},
            )

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)


@torch.no_grad()
def select_gradients_(weights: list[Tensor], keep: float) -> None:
    """Sets the gradients of all but a fraction of these weights to zero: those of the largest |gradient x weight|.

    The product is the first-order change of the loss if the weight were removed.
    """
    found = [(weight, weight.grad) for weight in weights if weight.grad is not None]
    scores = [(weight * grad).abs() for weight, grad in found]
    flat = torch.cat([score.flatten() for score in scores])
    count = max(1, round(keep * flat.numel()))
    lowest = torch.topk(flat, count, sorted=False).values.min()
    for (_, grad), score in zip(found, scores, strict=True):
        grad.masked_fill_(score < lowest, 0.0)
