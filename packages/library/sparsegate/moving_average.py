"""A moving average of a model's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


class MovingAverage(Optimizer):
    """Remembers the mean of a model's weights over the steps in which it is called, and puts it in their place.

    >>> layer = nn.Linear(1, 1)
    >>> mean = MovingAverage(layer, decay=1.0)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(layer.weight, value)
    ...     mean.step()
    >>> mean.apply_()
    >>> layer.weight.item()
    3.0

    The mean is a plain one up to 1 / (1 - decay) steps, then the older ones fade; with a decay of 1 it is plain to the
    end. Call `step` after the optimisers', once no weight is removed any more: the mean of two masks is neither. The
    statistics of batch normalisation are averaged too. It is an optimiser for the sake of its state dict: it changes
    nothing before `apply_`.
    """

    def __init__(self, model: nn.Module, *, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"decay is in [0, 1], 1 for a plain mean, got {decay}")
        values = [*model.parameters(), *model.buffers()]
        super().__init__(
            [each for each in values if each.is_floating_point()], {"decay": decay, "steps": 0}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Takes the weights of this moment into the mean."""
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
        """Gives the model its averaged weights; nothing happens if there was no step."""
        for group in self.param_groups:
            for value in group["params"]:
                if group["steps"]:
                    value.copy_(self.state[value]["average"])
