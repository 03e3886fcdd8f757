"""RigL: Evci, Gale, Menick, Castro and Elsen, Rigging the Lottery, 2020."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import Masked, add_masks, apply_masks_, masks, remove_masks
from sparsegate_lab.method import Method, Training, check_keep


@dataclass(frozen=True)
class RigL(Method):
    """Trains a sparse network from the start; moves connections to where gradients are large."""

    # Differs from Evci et al. 2020: 1. the first mask keeps the largest initial weights of every
    # layer, not random ones, and scales them up to the norm that the dense layer had. 2. the number
    # of moves is a setting, not the number of steps between two of them.

    keep: float = 0.05
    """Fraction of weights that trains, over all layers together; layers get theirs by ERK."""

    swap: float = 0.3
    """Fraction of a layer's connections that move at first; falls along a cosine to zero."""

    until: float = 0.75
    """Fraction of training after which connections stay."""

    moves: int = 20
    """Number of times that connections move."""

    def __post_init__(self) -> None:
        check_keep(self.keep)
        if not (0 <= self.swap <= 1 and 0 < self.until <= 1):
            raise ValueError(
                f"swap is in [0, 1] and until in (0, 1], got swap={self.swap}, until={self.until}"
            )
        if self.moves < 1:
            raise ValueError(f"moves is at least 1, got {self.moves}")

    @property
    def freezes_at(self) -> float:
        """Progress from which connections stay."""
        return self.until

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight, and removes all weights that do not train."""
        found = list(masks(add_masks(model)).values())
        counts = erk_counts([each.weight.shape for each in found], self.keep)
        for each, count in zip(found, counts, strict=True):
            _keep_largest_(each, count)
        return model

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """SGD that trains connections and moves them."""
        return [
            MovingSGD(
                list(model.parameters()),
                list(masks(model).values()),
                lr=training.lr,
                momentum=training.momentum,
                weight_decay=training.weight_decay,
            )
        ]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Sets the learning rate, and how many connections move in this step."""
        super().before_step(model, optimizers, progress)
        group = optimizers[0].param_groups[0]
        due = int(progress / self.until * self.moves + 1e-9) if progress < self.until else 0
        group["swap"] = 0.0
        if due > group["moved"]:
            group["moved"], group["swap"] = due, self.swap * cosine(progress, until=self.until)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps weights without a connection at zero."""
        apply_masks_(model)

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)


@torch.no_grad()
def _keep_largest_(masked: Masked, count: int) -> None:
    """Removes all but the largest weights of a layer, and restores its norm."""
    _, weight, mask = masked
    kept = torch.zeros(mask.numel(), dtype=torch.bool, device=mask.device)
    kept[weight.abs().flatten().topk(count).indices] = True
    mask.copy_(kept.view(mask.shape))
    norm = weight.norm()
    weight.masked_fill_(~mask, 0.0)
    weight.mul_(norm / weight.norm().clamp_min(1e-30))


class MovingSGD(SGD):
    """SGD on the weights that masks leave; in some steps it changes the masks instead.

    `param_groups[0]["swap"]` is the fraction of connections to move in the next step, and `moved`
    counts the moves that were made.
    """

    def __init__(
        self,
        params: list[nn.Parameter],
        masked: list[Masked],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)
        self.param_groups[0].update(swap=0.0, moved=0)
        self._masked = masked

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Moves connections if it is time; otherwise trains them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        swap = self.param_groups[0]["swap"]
        for _, weight, mask in self._masked:
            if weight.grad is None:
                continue
            if swap:
                velocity = self.state.get(weight, {}).get("momentum_buffer")
                move_(weight, weight.grad, mask, velocity, swap)
            else:
                weight.grad.masked_fill_(~mask, 0.0)
        if not swap:
            super().step()
        return loss


def move_(
    weight: Tensor, grad: Tensor, mask: Tensor, velocity: Tensor | None, share: float
) -> None:
    """Drops a share of a layer's connections, the smallest, and grows as many, in place.

    New ones are where the gradient is largest. They begin at zero, and so does their momentum.
    """
    live = mask.flatten()
    count = min(int(share * int(live.sum())), int((~live).sum()))
    if not count:
        return
    sizes = weight.abs().flatten().masked_fill(~live, torch.inf)
    stays = live.clone()
    stays[sizes.topk(count, largest=False).indices] = False
    wanted = grad.abs().flatten().masked_fill(stays, -torch.inf)
    grown = torch.zeros_like(live)
    grown[wanted.topk(count).indices] = True
    is_new = (grown & ~live).view(mask.shape)
    mask.copy_((stays | grown).view(mask.shape))
    weight.masked_fill_(is_new | ~mask, 0.0)
    if velocity is not None:
        velocity.masked_fill_(is_new | ~mask, 0.0)


Shape = Sequence[int]


def erk_counts(shapes: Sequence[Shape], keep: float) -> list[int]:
    """How many weights each layer keeps, if the fraction `keep` of all is left.

    The density of a layer is proportional to the sum of its dimensions over their product, and at
    most one (Mocanu et al., 2018; Evci et al., 2020).

    >>> erk_counts([(100, 100), (100, 10)], keep=0.1)
    [710, 390]
    """
    sizes = [prod(shape) for shape in shapes]
    parts: list[float] = [sum(shape) for shape in shapes]
    full: set[int] = set()
    while True:
        left = keep * sum(sizes) - sum(sizes[index] for index in full)
        others = [index for index in range(len(sizes)) if index not in full]
        if not others:
            return sizes
        unit = left / sum(parts[index] for index in others)
        dense = {index for index in others if unit * parts[index] >= sizes[index]}
        if not dense:
            break
        full |= dense
    return [
        sizes[index] if index in full else max(1, round(unit * parts[index]))
        for index in range(len(sizes))
    ]
