"""Greedy thresholds: Collins and Kohli, Memory Bounded Deep Convolutional Networks, 2014."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.schedule import cosine, ramp
from sparsegate_lab.layers import Masked, add_masks, apply_masks_, masks, num_to_keep, remove_masks
from sparsegate_lab.method import Judge, Method

BEST = "best_accuracy"  # a buffer of the model


@dataclass(frozen=True)
class CollinsKohli(Method):
    """Shrinks weights, and raises layers' thresholds greedily while the accuracy allows it."""

    # Differs from Collins and Kohli 2014: 1. after every epoch, thresholds rise by a fraction of a
    # layer's weights at a time; they search over a grid of sparsities, layer by layer. 2. weights
    # below the threshold stay removed; they let weights grow back between two projections.

    keep: float = 0.14
    """Fraction of all weights at which the search stops; it may end with more."""

    budget: float = 0.3
    """Points of validation accuracy below the best since the search began that may be lost."""

    bite: float = 0.2
    """Fraction of a layer's remaining weights that one higher threshold removes."""

    shrinkage: Literal["l1", "l2"] = "l1"
    """How weights shrink in every step: l1 by a distance, l2 by a factor."""

    price: float = 1e-5
    """Strength of the shrinkage: factor on the l1 norm, or on half the squared l2 norm."""

    step: float = 0.3
    """Length of a first step: the run's lr / (1 - momentum)."""

    begin: float = 0.3
    """Fraction of training before the search begins."""

    end: float = 0.7
    """Fraction of training before the search may reach `keep`."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 86 % sparsity write keep=0.14"
            )
        if not 0 < self.bite < 1:
            raise ValueError(f"bite is a fraction in (0, 1), got {self.bite}")
        if not (self.budget >= 0 and self.price >= 0 and self.step > 0):
            raise ValueError(
                "expected budget >= 0, price >= 0 and step > 0, "
                f"got {self.budget}, {self.price} and {self.step}"
            )
        if self.shrinkage not in ("l1", "l2"):
            raise ValueError(f"shrinkage is l1 or l2, got {self.shrinkage!r}")
        if not 0 < self.begin < self.end < 1:
            raise ValueError(
                f"expected 0 < begin < end < 1, got begin={self.begin}, end={self.end}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        add_masks(model).register_buffer(BEST, torch.zeros((), dtype=torch.float64))
        return model

    @torch.no_grad()
    def after_step(self, model: nn.Module, progress: float) -> None:
        """Shrinks all weights; keeps removed ones at zero."""
        apply_masks_(model)
        amount = self.price * self.step * cosine(progress)
        for _, weight, _ in masks(model).values():
            weight.copy_(
                F.softshrink(weight, amount) if self.shrinkage == "l1" else weight * (1 - amount)
            )

    @torch.no_grad()
    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Raises thresholds while the budget allows it; not after the last epoch."""
        if not self.begin - 1e-9 <= progress < 1:
            return
        best = model.get_buffer(BEST)
        best.fill_(max(float(best), judge.accuracy()))
        keep = self.keep ** ramp(progress - self.begin, over=self.end - self.begin)
        while (count := num_to_keep(model, keep)) is not None:
            if not self._raise_one(model, judge, float(best) - self.budget, count):
                return

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        del model._buffers[BEST]
        return remove_masks(model)

    def _raise_one(self, model: nn.Module, judge: Judge, lowest: float, count: int) -> bool:
        """Raises the threshold with the best ratio of weights to accuracy, if the budget allows one."""
        now, found = judge.accuracy(), list(masks(model).values())
        spare = sum(int(each.mask.sum()) for each in found) - count
        best: tuple[float, Masked, Tensor] | None = None
        for each in found:
            mask = bitten(each, self.bite, spare)
            accuracy = _accuracy_with(each, mask, judge)
            # At least 0.01 points, so that free thresholds are ranked by the weights they save.
            worth = int((each.mask & ~mask).sum()) / max(0.01, now - accuracy)
            if accuracy >= lowest and worth > (best[0] if best else 0.0):
                best = worth, each, mask
        if best is not None:
            best[1].mask.copy_(best[2])
            apply_masks_(model)
        return best is not None


def bitten(masked: Masked, bite: float, most: int) -> Tensor:
    """A layer's mask without a fraction of the smallest weights: at most `most`, never all."""
    left = int(masked.mask.sum())
    num_out = min(most, max(1, round(bite * left)), left - 1)
    sizes = masked.weight.abs().masked_fill(~masked.mask, torch.inf).flatten()
    out = sizes.argsort(stable=True)[: max(0, num_out)]
    mask = masked.mask.flatten().clone()
    mask[out] = False
    return mask.view(masked.mask.shape)


def _accuracy_with(masked: Masked, mask: Tensor, judge: Judge) -> float:
    """The accuracy with another mask for one layer, whose weights are restored afterwards."""
    before = masked.weight.clone()
    masked.weight.masked_fill_(~mask, 0.0)
    accuracy = judge.accuracy()
    masked.weight.copy_(before)
    return accuracy
