"""Magnitude pruning: Han, Pool, Tran and Dally, Learning both Weights and Connections, 2015."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import Tensor, nn

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import (
    add_dropout,
    add_masks,
    apply_masks_,
    cut_to_,
    masks,
    remove_dropout,
    remove_masks,
    scale_dropout_,
)
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class Magnitude(Method):
    """Trains densely, cuts the smallest weights of each layer, retrains the others from where they are; in rounds."""

    # Differs from Han et al. 2015: 1. they choose the multiple of each layer's standard deviation by hand; here one
    # multiple for all layers, with a factor for each, is found that leaves the wanted fraction. 2. the learning
    # rate follows cosines, also in retraining. 3. no l1 penalty was tried beside l2.

    keep: float = 0.08
    """Fraction of weights that is left at the end, over all layers together."""

    rounds: Rounds = field(default_factory=Rounds)
    """When weights are cut."""

    factors: tuple[tuple[str, float], ...] = ()
    """Factors on a layer's threshold by name pattern, such as conv1.* 0.5; the first match counts, 1 without any."""

    dropout: float = 0.0
    """Dropout of the inputs of all Linear layers that other layers feed; it falls with the connections left."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 92 % sparsity write keep=0.08"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a fraction in [0, 1), got {self.dropout}")
        if any(factor <= 0 for _, factor in self.factors):
            raise ValueError(f"a factor on a threshold is above zero, got {self.factors}")

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts masks beside all weights, and dropout before Linear layers if it is wanted."""
        add_masks(model)
        for pattern, _ in self.factors:
            if not any(fnmatchcase(name, pattern) for name in masks(model)):
                raise ValueError(
                    f"no weight matches {pattern!r}; the model's weights are {', '.join(masks(model))}"
                )
        return add_dropout(model, self.dropout) if self.dropout else model

    def settles_at(self) -> float:
        """When the last cut has been made."""
        return self.rounds.end

    def lr_factor(self, progress: float) -> float:
        """One cosine for dense training, another for retraining."""
        return self.rounds.lr_factor(progress)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Cuts, if it is time."""
        if (
            cut_to_(model, self.rounds.keep(progress, of=self.keep), self._scores(model))
            and self.dropout
        ):
            scale_dropout_(model, {each.module: _left(each.mask) for each in masks(model).values()})

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_dropout(remove_masks(model))

    def _scores(self, model: nn.Module) -> dict[str, Tensor]:
        """How many of its layer's standard deviations a weight is away from zero, over the layer's factor."""
        return {
            name: weight.detach().abs() / (self._factor(name) * _spread(weight.detach(), mask))
            for name, (_, weight, mask) in masks(model).items()
        }

    def _factor(self, name: str) -> float:
        return next((factor for pattern, factor in self.factors if fnmatchcase(name, pattern)), 1.0)


def _spread(weight: Tensor, mask: Tensor) -> Tensor:
    """The standard deviation of a layer's live weights."""
    live = weight[mask]
    return live.std(unbiased=False).clamp_min(1e-12) if live.numel() else weight.new_ones(())


def _left(mask: Tensor) -> float:
    """The fraction of a layer's connections that is left."""
    return float(mask.float().mean())
