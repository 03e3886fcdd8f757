"""The dense control: no gates, no zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Dense(Method):
    """Trains the network without making it smaller."""

    shards: ClassVar[bool] = True

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """The model itself."""
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model
