"""CONTRACT PruningRounds: methods that train densely, prune in rounds, and retrain."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn
from torch.optim import Optimizer

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import add_masks, apply_masks_, num_to_keep, remove_masks
from sparsegate_lab.method import Judge, Method, check_keep, scale_lr_


@dataclass(frozen=True)
class PruningRounds(Method):
    """A method that removes weights after some epochs, and retrains the others each time.

    A subclass says in `cut_` which weights go.
    """

    keep: float = 0.08
    """Fraction of weights that remains at the end, over all layers together."""

    rounds: Rounds = field(default_factory=Rounds)
    """When weights are removed."""

    def __post_init__(self) -> None:
        check_keep(self.keep)

    @abc.abstractmethod
    def cut_(self, model: nn.Module, judge: Judge, keep: float) -> None:
        """Removes weights until only the fraction `keep` of them remains, in place."""

    @property
    def freezes_at(self) -> float:
        """Progress of the last cut."""
        return self.rounds.end

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        return add_masks(model)

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Follows one cosine during dense training and another one during retraining."""
        scale_lr_(optimizers[0], self.rounds.lr_factor(progress))

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Removes weights when a round is due."""
        keep = self.rounds.keep(progress, of=self.keep)
        if num_to_keep(model, keep) is not None:
            self.cut_(model, judge, keep)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)
