"""Global sparse momentum: Ding et al., Global Sparse Momentum SGD for Pruning Networks, 2019."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import add_masks, apply_masks_, cut_to_, masks, remove_masks
from sparsegate_lab.method import Judge, Method, Training, check_keep, scale_lr_


@dataclass(frozen=True)
class GSM(Method):
    """In each step only the most important weights get a gradient; the others decay to zero."""

    # Differs from Ding et al. 2019: 1. the weights are pruned before the end and the others train
    # on, because trainings here are too short for decay to bring all others to zero. 2. one run
    # with one schedule, not a dense training and a second one. 3. momentum and decay are the run's,
    # the same in both phases.

    keep: float = 0.05
    """Fraction of weights that get a gradient in each step, and that remain at the end."""

    begin: float = 0.3
    """Fraction of training that is dense."""

    cut: float = 0.75
    """Fraction of training after which all but the largest weights are removed."""

    late: float = 0.7
    """Fraction of training before the learning rate starts to fall along a cosine."""

    def __post_init__(self) -> None:
        check_keep(self.keep)
        if not 0 <= self.begin < self.cut <= 1:
            raise ValueError(
                f"expected 0 <= begin < cut <= 1, got begin={self.begin}, cut={self.cut}"
            )
        if not 0 <= self.late < 1:
            raise ValueError(f"late is a fraction in [0, 1), got {self.late}")

    @property
    def freezes_at(self) -> float:
        """Progress of the cut."""
        return self.cut

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight."""
        return add_masks(model)

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """SGD that drops the gradients of unimportant weights."""
        weights = [each.weight for each in masks(model).values()]
        return [
            SelectiveSGD(
                list(model.parameters()),
                weights,
                lr=training.lr,
                momentum=training.momentum,
                weight_decay=training.weight_decay,
            )
        ]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Sets the learning rate, and how many weights get a gradient.

        After the cut, as many weights remain as are selected.
        """
        scale_lr_(optimizers[0], cosine(max(0.0, progress - self.late) / (1 - self.late)))
        for group in optimizers[0].param_groups:
            group["keep"] = self.keep if progress >= self.begin else 1.0

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Removes weights when the cut is due."""
        if progress >= self.cut - 1e-9:
            sizes = {name: each.weight.detach().abs() for name, each in masks(model).items()}
            cut_to_(model, self.keep, sizes)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)


class SelectiveSGD(SGD):
    """SGD in which only a fraction of some weights gets a gradient; all of them decay.

    The fraction is `param_groups[0]["keep"]`, 1 at first.
    """

    def __init__(
        self,
        params: list[nn.Parameter],
        selected: list[Tensor],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)
        self.param_groups[0]["keep"] = 1.0
        self._selected = selected

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Drops the gradients of the less important weights, then moves all weights."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if (keep := self.param_groups[0]["keep"]) < 1:
            select_gradients_(self._selected, keep)
        super().step()
        return loss


@torch.no_grad()
def select_gradients_(weights: list[Tensor], keep: float) -> None:
    """Zeroes all but a fraction of the gradients: those with the largest |gradient x weight| stay.

    The product is the first-order change of the loss if the weight were removed.
    """
    found = [(weight, weight.grad) for weight in weights if weight.grad is not None]
    scores = [(weight * grad).abs() for weight, grad in found]
    flat = torch.cat([score.flatten() for score in scores])
    count = max(1, round(keep * flat.numel()))
    lowest = torch.topk(flat, count, sorted=False).values.min()
    for (_, grad), score in zip(found, scores, strict=True):
        grad.masked_fill_(score < lowest, 0.0)
