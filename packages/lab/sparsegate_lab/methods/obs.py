"""Optimal brain surgeon, layer by layer: Hassibi and Stork 1993; Dong, Chen and Pan 2017."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import (
    Layer,
    LayerHessian,
    cut_to_,
    layers_of,
    masks,
    measure_hessians,
)
from sparsegate_lab.method import Judge
from sparsegate_lab.pruning_rounds import PruningRounds


@dataclass(frozen=True)
class OBS(PruningRounds):
    """Prunes the weights that the inverse Hessian says cost least; the others compensate."""

    # Differs from Hassibi and Stork 1993: 1. one Hessian for each unit of a layer, computed from
    # the layer's inputs and the unit's effect on the loss; units are treated as independent.
    # 2. many weights are removed at once, and the others are solved for together, which equals
    # their update for the whole set. 3. the network is retrained between rounds.

    rounds: Rounds = field(default_factory=lambda: Rounds(count=2))
    """When weights are removed."""

    parts: int = 1
    """Cuts within a round; each computes new inverses."""

    num_images: int = 500
    """Number of training images that measure the Hessian."""

    damp: float = 0.01
    """Value added to the Hessian's diagonal, as a fraction of its mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.parts >= 1 and self.num_images >= 1 and self.damp > 0):
            raise ValueError(
                "parts and num_images are at least 1 and damp above zero, "
                f"got {self.parts}, {self.num_images} and {self.damp}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds a mask to every weight; refuses layers of which it cannot build a Hessian."""
        for name, layer in layers_of(model).items():
            is_plain_conv = isinstance(layer, nn.Conv2d) and layer.groups == 1
            if not (isinstance(layer, nn.Linear) or is_plain_conv):
                raise ValueError(
                    f"obs supports Linear and ungrouped Conv2d, but {name} is a {layer}; use obd"
                )
        return super().prepare(model)

    def cut_(self, model: nn.Module, judge: Judge, keep: float) -> None:
        """Measures the Hessians and removes weights, in one or several parts."""
        layers = {f"{name}.weight": layer for name, layer in layers_of(model).items()}
        hessians = measure_hessians(layers, model, judge.images(self.num_images), self.damp)
        found = [each.mask for each in masks(model).values()]
        left = sum(int(mask.sum()) for mask in found) / sum(mask.numel() for mask in found)
        for part in range(1, self.parts + 1):
            operate_(model, layers, hessians, left * (keep / left) ** (part / self.parts))


@torch.no_grad()
def operate_(
    model: nn.Module, layers: dict[str, Layer], hessians: dict[str, LayerHessian], keep: float
) -> None:
    """Removes the cheapest weights of a masked model, in place; the others compensate."""
    found = masks(model)
    before = {name: rows_with_bias(layers[name]) for name in found}
    scores = {}
    for name, (_, weight, mask) in found.items():
        hessian = hessians[name]
        inverse = hessian.inverse_diagonal(live_with_bias(layers[name], mask))
        cost = hessian.factor.unsqueeze(1) * before[name] ** 2 / (2 * inverse)
        scores[name] = cost[:, : weight[0].numel()].reshape(weight.shape)
    cut_to_(model, keep, scores)
    for name, (_, weight, mask) in found.items():
        live = live_with_bias(layers[name], mask)
        rows = hessians[name].refit(before[name], live).to(weight.dtype)
        weight.copy_(rows[:, : weight[0].numel()].reshape(weight.shape))
        if (bias := layers[name].bias) is not None:
            bias.copy_(rows[:, -1])


def rows_with_bias(layer: Layer) -> Tensor:
    """A layer's weights in double precision, one row per unit, with the bias as the last column."""
    rows = layer.weight.detach().double().flatten(1)
    if layer.bias is None:
        return rows
    return torch.cat([rows, layer.bias.detach().double().unsqueeze(1)], dim=1)


def live_with_bias(layer: Layer, mask: Tensor) -> Tensor:
    """A layer's mask, one row per unit; the bias is never removed."""
    return mask.flatten(1) if layer.bias is None else F.pad(mask.flatten(1), (0, 1), value=True)
