"""The mean of a model's weights over its last steps, which shows where training is heading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.gates import weights
from sparsegate.sharded import is_sharded, shared_like


class RecentMean:
    """The mean of weights and of statistics of normalization over the last steps.

    At a high learning rate, a network jumps around the place to which a low one would take it. Its
    accuracy is low and uncertain; that of the mean is neither.

    Args:
        model: The model; gates have no mean.
    """

    def __init__(self, model: nn.Module) -> None:
        buffers = (each for each in model.buffers() if each.is_floating_point())
        self._values: list[Tensor] = [*weights(model), *buffers]
        self._names = [f"recent mean {index}" for index in range(len(self._values))]
        self._memory: dict[str, Any] = {}
        self.count = 0
        """How many steps are in the mean."""

    def keep_in(self, memory: dict[str, Any]) -> None:
        """Keeps the mean in an optimizer's state from now on, which is saved with it."""
        if memory is not self._memory:
            for name in set(self._names) & self._memory.keys() - memory.keys():
                memory[name] = self._memory[name]
        self._memory = memory

    @torch.no_grad()
    def add(self) -> None:
        """Adds the weights as they are now."""
        self.count += 1
        if self.count == 1:
            for name, value in zip(self._names, self._values, strict=True):
                self._memory[name] = value.detach().clone()
            return
        for mean, value in zip(self._means(), self._values, strict=True):
            mean.lerp_(value, 1 / self.count)

    def forget(self) -> None:
        """Begins a new mean with the next step."""
        self.count = 0

    @torch.no_grad()
    def apply_(self) -> None:
        """Replaces the weights by their mean; does nothing without one."""
        if self.count:
            for mean, value in zip(self._means(), self._values, strict=True):
                value.copy_(mean)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replaces the weights by their mean for a moment."""
        before = [value.detach().clone() for value in self._values] if self.count else []
        self.apply_()
        try:
            yield
        finally:
            with torch.no_grad():
                for value, old in zip(self._values, before, strict=False):
                    value.copy_(old)

    def _means(self) -> list[Tensor]:
        """The means, sharded as the weights are; those of a checkpoint may not be."""
        for name, value in zip(self._names, self._values, strict=True):
            if is_sharded(value) and not is_sharded(self._memory[name]):
                self._memory[name] = shared_like(value, self._memory[name])
        return [self._memory[name] for name in self._names]
