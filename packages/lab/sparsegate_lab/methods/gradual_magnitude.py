"""Gradual pruning by magnitude: Zhu and Gupta, To prune, or not to prune, 2017."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from sparsegate.schedule import Gradual
from sparsegate_lab.layers import (
    SCORES,
    add_masks,
    apply_masks_,
    cut_to_,
    masks,
    num_to_keep,
    remove_masks,
)
from sparsegate_lab.method import Method, check_keep


@dataclass(frozen=True)
class GradualMagnitude(Method):
    """Removes the smallest weights in many small cuts during training, along a cubic schedule."""

    # Differs from Zhu and Gupta 2017: 1. they prune each layer to the same sparsity (`rank layer`);
    # the default ranks all weights of the network together, which is better. 2. a removed weight
    # stays removed.

    keep: float = 0.05
    """Fraction of weights that remains at the end, over all layers together."""

    rank: Literal["network", "layer", "lamp"] = "network"
    """Rank weights by magnitude in the network or in their layer, or by LAMP scores."""

    gradual: Gradual = field(default_factory=Gradual)
    """When weights are removed."""

    cuts: int = 100
    """Number of cuts."""

    def __post_init__(self) -> None:
        check_keep(self.keep)
        if self.rank not in SCORES:
            raise ValueError(f"rank is one of {', '.join(SCORES)}, got {self.rank!r}")
        if self.cuts < 1:
            raise ValueError(f"cuts is at least 1, got {self.cuts}")

    @property
    def freezes_at(self) -> float:
        """Progress of the last cut."""
        return self.gradual.end

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        return add_masks(model)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero, and removes more when a cut is due."""
        apply_masks_(model)
        if progress < self.gradual.begin:
            return
        keep = self.gradual.keep(self._last_cut(progress), of=self.keep)
        if num_to_keep(model, keep) is not None:
            score = SCORES[self.rank]
            cut_to_(model, keep, {name: score(each.weight) for name, each in masks(model).items()})

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)

    def _last_cut(self, progress: float) -> float:
        """Progress of the last cut that is due."""
        begin, span = self.gradual.begin, self.gradual.end - self.gradual.begin
        # Slightly early rather than one cut late because of rounding.
        return begin + span * math.floor((progress - begin) / span * self.cuts + 1e-9) / self.cuts
