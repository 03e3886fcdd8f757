"""Layers that compute several members at once, each on its part of the batch."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .pooled import pooled_conv
from .unfolded import fits_unfolding, unfolded_conv


class ManyLinear(nn.Module):
    """Linear layers as one batched product; the input's first axis goes member by member."""

    weight: Tensor
    bias: Tensor | None

    def forward(
        self, inputs: Float[Tensor, "batch *between features"]
    ) -> Float[Tensor, "batch *between units"]:
        """Returns the outputs of every member's layer for its part of the batch."""
        weight, bias = self.weight, self.bias
        parts = inputs.reshape(len(weight), -1, inputs.shape[-1])
        if bias is None:
            made = torch.bmm(parts, weight.transpose(1, 2))
        else:
            made = torch.baddbmm(bias[:, None], parts, weight.transpose(1, 2))
        return made.reshape(*inputs.shape[:-1], weight.shape[1])


class ManyConv2d(nn.Module):
    """Convolutions of several members; the input's first axis goes member by member."""

    weight: Tensor
    bias: Tensor | None
    pooled: bool
    """Whether the layer also pools by two and applies ReLU, on a GPU with Triton."""

    def __init__(self, of: nn.Conv2d) -> None:
        super().__init__()
        self.pooled = False
        if of.padding_mode != "zeros":
            raise ValueError(
                "convolutions of many members are padded with zeros, "
                f"got padding_mode {of.padding_mode}"
            )
        self.options = (of.stride, of.padding, of.dilation, of.groups)

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch unit height2 width2"]:
        """Returns the outputs of every member's layer for its part of the batch."""
        if self.pooled:
            bias = self.weight.new_zeros(self.weight.shape[:2]) if self.bias is None else self.bias
            return pooled_conv(images, self.weight, bias)
        if images.is_cuda and fits_unfolding(*self.options):
            return unfolded_conv(images, self.weight, self.bias)
        return self._as_groups(images) if images.is_cuda else self._one_by_one(images)

    def _one_by_one(self, images: Tensor) -> Tensor:
        """Computes one convolution per member; on a CPU, each one keeps a core busy."""
        # In channels-last, as in `train`: the fast layout, and the same order of arithmetic.
        weights = [
            each.contiguous(memory_format=torch.channels_last) for each in self.weight.unbind(0)
        ]
        biases = [None] * len(weights) if self.bias is None else self.bias.unbind(0)
        parts = images.chunk(len(weights))
        made = [F.conv2d(*each, *self.options) for each in zip(parts, weights, biases, strict=True)]  # type: ignore[call-overload]
        return torch.cat(made)

    def _as_groups(self, images: Tensor) -> Tensor:
        """Computes one convolution with a group for every member."""
        members, units = self.weight.shape[:2]
        side_by_side = images.view(members, -1, *images.shape[1:]).transpose(0, 1).flatten(1, 2)
        *options, groups = self.options
        bias = None if self.bias is None else self.bias.flatten()
        made: Tensor = F.conv2d(
            side_by_side, self.weight.flatten(0, 1), bias, *options, groups * members
        )  # type: ignore[call-overload]
        return made.view(len(made), members, units, *made.shape[2:]).transpose(0, 1).flatten(0, 1)


def stacked_layers_(model: nn.Module) -> dict[str, nn.Module]:
    """Replaces a model's layers with layers for many members, in place; weights are set later.

    >>> stacked_layers_(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    {'0': ManyLinear()}
    """
    made: dict[str, nn.Module] = {}
    for path, module in list(model.named_modules()):
        if not list(module.parameters(recurse=False)) and not list(module.buffers(recurse=False)):
            continue
        made[path] = _stacked(path, module)
        owner, _, name = path.rpartition(".")
        setattr(model.get_submodule(owner), name, made[path])
    return made


def _stacked(path: str, module: nn.Module) -> nn.Module:
    if path and type(module) is nn.Linear:
        return ManyLinear()
    if path and type(module) is nn.Conv2d:
        return ManyConv2d(module)
    raise ValueError(
        f"{path or 'the model itself'} is a {type(module).__name__}; many members are trained at "
        "once only if all parameters are in Linear and Conv2d layers: train this model alone"
    )
