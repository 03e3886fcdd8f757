"""The Hessian of the loss for one unit's weights, the same for all units of a layer up to a factor, and its inverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from .wrap import Layer

BLOCK = 2**22  # elements of all inverses that are held at a time
CHUNK = 100  # images that are run at a time


@dataclass(frozen=True)
class LayerHessian:
    """What a layer reads, and how strongly the loss feels each unit: the Hessian of unit u is `factor[u] * inputs`.

    The bias, where there is one, is one more weight, the last, on an input that is always one.
    """

    inputs: Float[Tensor, "fan_in fan_in"]
    factor: Float[Tensor, " unit"]

    def inverse_diagonal(self, live: Bool[Tensor, "unit fan_in"]) -> Float[Tensor, "unit fan_in"]:
        """For every unit the diagonal of the inverse of `inputs` among its live weights; one elsewhere."""
        if bool(live.all()):  # before the first cut one inverse serves all
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(self.inputs))
            return inverse.diagonal().expand(live.shape).clone()
        out = torch.ones(live.shape, dtype=self.inputs.dtype, device=live.device)
        for rows, place, part in self._blocks(live):
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(part)).diagonal(dim1=1, dim2=2)
            out[rows] = out[rows].scatter(1, place, inverse)
        return torch.where(live, out, 1.0)

    def refit(
        self, weight: Float[Tensor, "unit fan_in"], live: Bool[Tensor, "unit fan_in"]
    ) -> Float[Tensor, "unit fan_in"]:
        """The weights, zero where not live, that are nearest to given ones in what the layer computes."""
        wanted, out = weight @ self.inputs, torch.zeros_like(weight)
        for rows, place, part in self._blocks(live):
            valid = live[rows].gather(1, place)
            side = torch.where(valid, wanted[rows].gather(1, place), 0.0).unsqueeze(2)
            solved = torch.cholesky_solve(side, torch.linalg.cholesky(part)).squeeze(2)
            out[rows] = out[rows].scatter(1, place, torch.where(valid, solved, 0.0))
        return out

    def _blocks(self, live: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Units in blocks that fit in memory: which, where their live weights are, and `inputs` among those.

        Units with fewer live weights than others of their block have ones on the diagonal in what is left over.
        """
        counts = live.sum(1)
        order = counts.argsort(
            descending=True, stable=True
        )  # units of one size together: little is left over
        begin = 0
        while begin < len(order):
            width = max(1, int(counts[order[begin]]))
            rows = order[begin : begin + max(1, BLOCK // width**2)]
            begin += len(rows)
            place = (
                live[rows].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
            )
            valid = live[rows].gather(1, place)
            part = self.inputs[place.unsqueeze(2), place.unsqueeze(1)]
            if not bool(valid.all()):
                part.mul_(valid.unsqueeze(2)).mul_(valid.unsqueeze(1))
                part.diagonal(dim1=1, dim2=2).add_(~valid)
            yield rows, place, part


def measure_hessians(
    layers: dict[str, Layer], model: nn.Module, images: Tensor, damp: float
) -> dict[str, LayerHessian]:
    """The Hessians of layers by name, in eval, with labels that the model draws.

    `damp` times the mean of the diagonal is added to it: inputs that never move would have no inverse.
    """
    was_training = model.training
    model.eval()
    seen = {name: _Seen(layer) for name, layer in layers.items()}
    draw = torch.Generator().manual_seed(
        0
    )  # on the CPU and fixed: every process must draw the same
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
    """What has been seen of a layer so far."""

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
        """Takes in one batch, with the loss's slope at the layer's output."""
        rows = rows_of(self.layer, self._features).double()
        self._gram = self._gram + rows.T @ rows
        axis = slope.ndim - 1 if isinstance(self.layer, nn.Linear) else 1
        each = slope.movedim(axis, 0).flatten(1).double()
        self._slopes = self._slopes + each.square().sum(1)
        self._num_slopes += each.shape[1]

    def close(self, num_images: int, damp: float) -> LayerHessian:
        """The Hessian of all that was seen."""
        self._hook.remove()
        assert isinstance(self._gram, Tensor)
        assert isinstance(self._slopes, Tensor)
        inputs = self._gram / num_images
        inputs.diagonal().add_(damp * inputs.diagonal().mean())
        return LayerHessian(inputs, self._slopes / self._num_slopes)


def rows_of(layer: Layer, features: Tensor) -> Float[Tensor, "row fan_in"]:
    """What each unit of a layer reads, a row for every place, with a one for the bias at the end."""
    if isinstance(layer, nn.Linear):
        rows = features.flatten(0, -2)
    else:
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        padded = F.pad(features, layer._reversed_padding_repeated_twice, mode=mode)
        rows = F.unfold(
            padded, layer.kernel_size, dilation=layer.dilation, stride=layer.stride
        ).mT.flatten(0, 1)  # type: ignore[arg-type]
    return rows if layer.bias is None else F.pad(rows, (0, 1), value=1.0)
