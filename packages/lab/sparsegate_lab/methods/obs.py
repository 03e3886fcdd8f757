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
    add_masks,
    apply_masks_,
    cut_to_,
    layers_of,
    masks,
    measure_hessians,
    num_to_keep,
    remove_masks,
)
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class OBS(Method):
    """Cuts the weights whose loss is cheapest by the inverse Hessian; the others make up for them; in rounds."""

    # Differs from Hassibi and Stork 1993: 1. one Hessian for each unit of a layer, made of what the layer reads and of
    # how strongly the loss feels the unit; weights of different units are taken as independent. 2. weights are
    # cut many at a time, and the others are solved for at once, which equals their update for the whole set.
    # 3. the network is retrained between rounds.

    keep: float = 0.08
    """Fraction of weights that is left at the end, over all layers together."""

    rounds: Rounds = field(default_factory=lambda: Rounds(count=2))
    """When weights are cut."""

    parts: int = 1
    """Cuts within a round, each with inverses of its own."""

    num_images: int = 500
    """Training images by which the Hessian is measured."""

    damp: float = 0.01
    """What is added to the Hessian's diagonal, as a fraction of its mean."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 92 % sparsity write keep=0.08"
            )
        if not (self.parts >= 1 and self.num_images >= 1 and self.damp > 0):
            raise ValueError(
                "parts and num_images are at least 1 and damp above zero, "
                f"got {self.parts}, {self.num_images} and {self.damp}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts masks beside all weights; refuses layers whose inputs it cannot see."""
        for name, layer in layers_of(model).items():
            if not isinstance(layer, nn.Linear) and not (
                isinstance(layer, nn.Conv2d) and layer.groups == 1
            ):
                raise ValueError(
                    f"obs knows Linear and ungrouped Conv2d, but {name} is a {layer}; use obd"
                )
        return add_masks(model)

    def lr_factor(self, progress: float) -> float:
        """One cosine for dense training, another for retraining."""
        return self.rounds.lr_factor(progress)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Measures the Hessian and cuts, if it is time."""
        keep = self.rounds.keep(progress, of=self.keep)
        if num_to_keep(model, keep) is None:
            return
        layers = {f"{name}.weight": layer for name, layer in layers_of(model).items()}
        hessians = measure_hessians(layers, model, judge.images(self.num_images), self.damp)
        found = [each.mask for each in masks(model).values()]
        left = sum(int(mask.sum()) for mask in found) / sum(mask.numel() for mask in found)
        for part in range(1, self.parts + 1):
            operate_(model, layers, hessians, left * (keep / left) ** (part / self.parts))

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)


@torch.no_grad()
def operate_(
    model: nn.Module, layers: dict[str, Layer], hessians: dict[str, LayerHessian], keep: float
) -> None:
    """Cuts the cheapest weights of a masked model and lets the others of their units make up for them, in place."""
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
        rows = (
            hessians[name].refit(before[name], live_with_bias(layers[name], mask)).to(weight.dtype)
        )
        weight.copy_(rows[:, : weight[0].numel()].reshape(weight.shape))
        if (bias := layers[name].bias) is not None:
            bias.copy_(rows[:, -1])


def rows_with_bias(layer: Layer) -> Tensor:
    """A layer's weights as a row for every unit, its bias at the end, in double precision."""
    rows = layer.weight.detach().double().flatten(1)
    return (
        rows
        if layer.bias is None
        else torch.cat([rows, layer.bias.detach().double().unsqueeze(1)], dim=1)
    )


def live_with_bias(layer: Layer, mask: Tensor) -> Tensor:
    """A layer's mask as a row for every unit; biases always live."""
    return mask.flatten(1) if layer.bias is None else F.pad(mask.flatten(1), (0, 1), value=True)
