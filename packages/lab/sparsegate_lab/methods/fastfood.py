"""Adaptive Fastfood: Yang et al., Deep Fried Convnets, 2014."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sparsegate.graph import linear_readers
from sparsegate_lab.layers import FastfoodLayer, Resized, linears, replace_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class Fastfood(Method):
    """Trains a network whose chosen layers are adaptive Fastfood transforms from the start."""

    features: int | None = None
    """Outputs of a chosen layer, whose readers are resized: 1024 for Fastfood-1024."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights that are replaced."""

    permutation: int = 0
    """Seed of the permutations, which are not stored."""

    def __post_init__(self) -> None:
        if self.features is not None and self.features < 1:
            raise ValueError(f"features is at least 1, got {self.features}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Replaces the chosen layers with transforms."""
        chosen = linears(model, self.only)
        readers = {}
        if self.features is not None:
            readers = {name: linear_readers(model, name) for name in chosen}
        for index, (name, layer) in enumerate(chosen.items()):
            for reader in readers.get(name, []):
                self._resize_(model, reader, chosen)
            new = FastfoodLayer(layer, features=self.features, seed=self.permutation + index)
            replace_(model, layer, new)
        return model

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its transforms."""
        return model

    def _resize_(self, model: nn.Module, reader: nn.Linear, chosen: dict[str, nn.Linear]) -> None:
        assert self.features is not None
        if any(reader is layer for layer in chosen.values()):
            raise ValueError(
                "features resizes the layer that reads them, and only= replaces that layer too; "
                "leave one of the two out"
            )
        wider = nn.Linear(self.features, reader.out_features, bias=reader.bias is not None)
        replace_(model, reader, Resized(reader, by=wider))
