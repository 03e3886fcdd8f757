"""AC/DC: Peste et al., Alternating Compressed/DeCompressed Training, 2021."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from sparsegate_lab.layers import (
    add_masks,
    apply_masks_,
    cut_to_,
    magnitudes,
    masks,
    num_to_keep,
    remove_masks,
)
from sparsegate_lab.method import Method, check_keep


@dataclass(frozen=True)
class Alternating(Method):
    """Alternates between sparse and dense training; removed weights come back and learn again."""

    # Differs from Peste et al. 2021: 1. phases are equal fractions of training, not five epochs. 2.
    # all weights are ranked together, the first and the last layer too.

    keep: float = 0.05
    """Fraction of weights in sparse phases and at the end, over all layers together."""

    begin: float = 0.1
    """Fraction of training that is dense at first."""

    last: float = 0.75
    """Fraction of training after which the mask is fixed."""

    cycles: int = 6
    """Number of sparse phases, each followed by a dense one, before the mask is fixed."""

    def __post_init__(self) -> None:
        check_keep(self.keep)
        if not 0 < self.begin < self.last < 1:
            raise ValueError(
                f"0 < begin < last < 1 must hold, got begin={self.begin}, last={self.last}"
            )
        if self.cycles < 0:
            raise ValueError(f"cycles is zero or more, got {self.cycles}")

    @property
    def freezes_at(self) -> float:
        """Progress of the last cut."""
        return self.last

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        return add_masks(model)

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Removes the smallest weights when a sparse phase begins, and frees all when it ends."""
        super().before_step(model, optimizers, progress)
        if not self.is_sparse(progress):
            _free_(model, optimizers[0])
        elif num_to_keep(model, self.keep) is not None:
            sizes = {name: magnitudes(each.weight) for name, each in masks(model).items()}
            cut_to_(model, self.keep, sizes)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)

    def is_sparse(self, progress: float) -> bool:
        """Whether training is in a sparse phase.

        >>> method = Alternating(begin=0.2, last=0.6, cycles=1)
        >>> [method.is_sparse(progress) for progress in (0.1, 0.3, 0.5, 0.6)]
        [False, True, False, True]
        """
        if not self.begin <= progress < self.last:
            return progress >= self.last
        phase = 2 * self.cycles * (progress - self.begin) / (self.last - self.begin)
        return bool(self.cycles) and math.floor(phase) % 2 == 0


def _free_(model: nn.Module, optimizer: Optimizer) -> None:
    """Lets removed weights train again, from zero and without momentum."""
    for _, weight, mask in masks(model).values():
        if not bool(mask.all()):
            velocity = optimizer.state.get(weight, {}).get("momentum_buffer")
            if velocity is not None:
                velocity.masked_fill_(~mask, 0.0)
            mask.fill_(value=True)
