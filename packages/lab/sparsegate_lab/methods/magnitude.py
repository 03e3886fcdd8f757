"""Magnitude pruning: Han, Pool, Tran and Dally, Learning both Weights and Connections, 2015."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from sparsegate_lab.layers import add_dropout, cut_to_, masks, remove_dropout, scale_dropout_
from sparsegate_lab.method import Judge
from sparsegate_lab.pruning_rounds import PruningRounds


@dataclass(frozen=True)
class Magnitude(PruningRounds):
    """Trains densely, prunes each layer's smallest weights, and retrains the others; in rounds."""

    # Differs from Han et al. 2015: 1. they choose the multiple of each layer's standard deviation
    # by hand; here one multiple for all layers, with a factor for each, is found that leaves the
    # wanted fraction. 2. the learning rate follows cosines, also in retraining. 3. no l1 penalty
    # was tried, only l2.

    factors: tuple[tuple[str, float], ...] = ()
    """Factors on the thresholds by name pattern, such as conv1.* 0.5; the first match counts."""

    dropout: float = 0.0
    """Dropout of the inputs of all Linear layers except a first one; falls with the sparsity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a fraction in [0, 1), got {self.dropout}")
        if any(factor <= 0 for _, factor in self.factors):
            raise ValueError(f"a factor on a threshold is above zero, got {self.factors}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight, and dropout to Linear layers if it is wanted."""
        super().prepare(model)
        for pattern, _ in self.factors:
            if not any(fnmatchcase(name, pattern) for name in masks(model)):
                names = ", ".join(masks(model))
                raise ValueError(f"no weight matches {pattern!r}; the model's weights are {names}")
        return add_dropout(model, self.dropout) if self.dropout else model

    def cut_(self, model: nn.Module, judge: Judge, keep: float) -> None:
        """Removes the smallest weights, and lowers the dropout to fit."""
        cut_to_(model, keep, self._scores(model))
        if self.dropout:
            left = {each.module: float(each.mask.float().mean()) for each in masks(model).values()}
            scale_dropout_(model, left)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_dropout(super().finish(model))

    def _scores(self, model: nn.Module) -> dict[str, Tensor]:
        """Sizes of weights in standard deviations of their layer, divided by its factor."""
        return {
            name: weight.detach().abs() / (self._factor(name) * _spread(weight.detach(), mask))
            for name, (_, weight, mask) in masks(model).items()
        }

    def _factor(self, name: str) -> float:
        return next((factor for pattern, factor in self.factors if fnmatchcase(name, pattern)), 1.0)


def _spread(weight: Tensor, mask: Tensor) -> Tensor:
    """The standard deviation of a layer's remaining weights."""
    live = weight[mask]
    return live.std(unbiased=False).clamp_min(1e-12) if live.numel() else weight.new_ones(())
