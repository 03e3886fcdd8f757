"""Optimal brain surgeon, layer by layer: Hassibi and Stork 1993; Dong, Chen and Pan 2017."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import Layer, cut_to_, layers_of, masks
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


BLOCK = 2**22  # elements of all inverses that are held at once
CHUNK = 100  # images that are run at once


@dataclass(frozen=True)
class LayerHessian:
    """The Hessians of a layer's units: that of unit u is `factor[u] * inputs`.

    A bias is the last weight, with an input that is always one.
    """

    inputs: Float[Tensor, "fan_in fan_in"]
    factor: Float[Tensor, " unit"]

    def inverse_diagonal(self, live: Bool[Tensor, "unit fan_in"]) -> Float[Tensor, "unit fan_in"]:
        """The diagonal of the inverse of `inputs` among each unit's live weights; elsewhere one."""
        if bool(live.all()):  # before the first cut all units share one inverse
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(self.inputs))
            return inverse.diagonal().expand(live.shape).clone()
        out = torch.ones(live.shape, dtype=self.inputs.dtype, device=live.device)
        for rows, index, part in self._blocks(live):
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(part)).diagonal(dim1=1, dim2=2)
            out[rows] = out[rows].scatter(1, index, inverse)
        return torch.where(live, out, 1.0)

    def refit(
        self, weight: Float[Tensor, "unit fan_in"], live: Bool[Tensor, "unit fan_in"]
    ) -> Float[Tensor, "unit fan_in"]:
        """The live weights that compute nearly the same outputs; the others are zero."""
        wanted, out = weight @ self.inputs, torch.zeros_like(weight)
        for rows, index, part in self._blocks(live):
            valid = live[rows].gather(1, index)
            side = torch.where(valid, wanted[rows].gather(1, index), 0.0).unsqueeze(2)
            solved = torch.cholesky_solve(side, torch.linalg.cholesky(part)).squeeze(2)
            out[rows] = out[rows].scatter(1, index, torch.where(valid, solved, 0.0))
        return out

    def _blocks(self, live: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Splits the units into blocks that fit in memory.

        Gives for each block the units, the indices of their live weights, and `inputs` among those.
        Units with fewer live weights are padded with ones on the diagonal.
        """
        counts = live.sum(1)
        # Units with equally many live weights come together, which saves padding.
        order = counts.argsort(descending=True, stable=True)
        begin = 0
        while begin < len(order):
            width = max(1, int(counts[order[begin]]))
            rows = order[begin : begin + max(1, BLOCK // width**2)]
            begin += len(rows)
            index = (
                live[rows].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
            )
            valid = live[rows].gather(1, index)
            part = self.inputs[index.unsqueeze(2), index.unsqueeze(1)]
            if not bool(valid.all()):
                part.mul_(valid.unsqueeze(2)).mul_(valid.unsqueeze(1))
                part.diagonal(dim1=1, dim2=2).add_(~valid)
            yield rows, index, part


def measure_hessians(
    layers: dict[str, Layer], model: nn.Module, images: Tensor, damp: float
) -> dict[str, LayerHessian]:
    """Measures the Hessians of layers, in eval mode, with labels drawn from the predictions.

    Args:
        layers: layers of the model by name.
        model: the model.
        images: normalized images.
        damp: this fraction of the diagonal's mean is added to it. Without it, constant inputs would
            make the Hessian singular.
    """
    was_training = model.training
    model.eval()
    seen = {name: _Seen(layer) for name, layer in layers.items()}
    # On the CPU with a fixed seed, so that every process draws the same labels.
    draw = torch.Generator().manual_seed(0)
    for begin in range(0, len(images), CHUNK):
        logits = model(images[begin : begin + CHUNK]).float()
        labels = (
            logits.detach()
            .softmax(1)
            .cpu()
            .multinomial(1, generator=draw)
            .flatten()
            .to(logits.device)
        )
        slopes = torch.autograd.grad(
            F.cross_entropy(logits, labels, reduction="sum"), [each.out for each in seen.values()]
        )
        for each, slope in zip(seen.values(), slopes, strict=True):
            each.add(slope)
    model.train(was_training)
    return {name: each.close(len(images), damp) for name, each in seen.items()}


class _Seen:
    """Accumulates the Hessian of one layer."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.out = layer, torch.empty(0)
        self._features = torch.empty(0)
        self._gram: Tensor | float = 0.0
        self._slopes: Tensor | float = 0.0
        self._num_slopes = 0
        self._hook = layer.register_forward_hook(self._note)

    def _note(self, _: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        self._features, self.out = args[0].detach(), out

    def add(self, slope: Tensor) -> None:
        """Adds one batch, given the gradient of the loss at the layer's output."""
        rows = rows_of(self.layer, self._features).double()
        self._gram = self._gram + rows.T @ rows
        axis = slope.ndim - 1 if isinstance(self.layer, nn.Linear) else 1
        each = slope.movedim(axis, 0).flatten(1).double()
        self._slopes = self._slopes + each.square().sum(1)
        self._num_slopes += each.shape[1]

    def close(self, num_images: int, damp: float) -> LayerHessian:
        """The Hessian of all batches."""
        self._hook.remove()
        assert isinstance(self._gram, Tensor)
        assert isinstance(self._slopes, Tensor)
        inputs = self._gram / num_images
        inputs.diagonal().add_(damp * inputs.diagonal().mean())
        return LayerHessian(inputs, self._slopes / self._num_slopes)


def rows_of(layer: Layer, features: Tensor) -> Float[Tensor, "row fan_in"]:
    """What a layer reads: one row per position, with a one for the bias at the end."""
    if isinstance(layer, nn.Linear):
        rows = features.flatten(0, -2)
    else:
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        padded = F.pad(features, layer._reversed_padding_repeated_twice, mode=mode)
        rows = F.unfold(
            padded, layer.kernel_size, dilation=layer.dilation, stride=layer.stride
        ).mT.flatten(0, 1)  # type: ignore[arg-type]
    return rows if layer.bias is None else F.pad(rows, (0, 1), value=1.0)
