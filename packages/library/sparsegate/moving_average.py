"""A moving average of a model's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


class MovingAverage(Optimizer):
    """Averages a model's weights over steps, and replaces them by the average when asked.

    >>> layer = nn.Linear(1, 1)
    >>> mean = MovingAverage(layer, decay=1.0)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(layer.weight, value)
    ...     mean.step()
    >>> mean.apply_()
    >>> layer.weight.item()
    3.0

    Call `step` after the steps of the optimizers, once no weight is removed any more: the mean of
    two masks is neither of them. Statistics of batch normalization are averaged too. The class is
    an optimizer for its state dict only; it changes nothing before `apply_`.

    Args:
        model: The model whose parameters and floating-point buffers are averaged.
        decay: The mean is plain for the first 1 / (1 - decay) steps, then exponential. With 1 it
            stays plain.

    Raises:
        ValueError: If the decay is not in [0, 1].
    """

    moves_gates = True  # gates have averages like all other tensors

    def __init__(self, model: nn.Module, *, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"decay is in [0, 1], 1 for a plain mean, got {decay}")
        values = [*model.parameters(), *model.buffers()]
        super().__init__(
            [value for value in values if value.is_floating_point()], {"decay": decay, "steps": 0}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Adds the present weights to the mean; `closure` is ignored."""
        for group in self.param_groups:
            group["steps"] += 1
            rate = max(1 - group["decay"], 1 / group["steps"])
            for value in group["params"]:
                state = self.state[value]
                state["average"] = (
                    value.detach().clone()
                    if group["steps"] == 1
                    else state["average"].lerp_(value, rate)
                )

    @torch.no_grad()
    def apply_(self) -> None:
        """Replaces the model's weights by their averages, in place; does nothing without a step."""
        for group in self.param_groups:
            for value in group["params"]:
                if group["steps"]:
                    value.copy_(self.state[value]["average"])
