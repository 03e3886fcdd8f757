"""A convolution in one or two dimensions whose kernel is sparse."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .kept import Kept, packed
from .sparse_module import SparseModule, check_input


class SparseConv(SparseModule):
    """Computes a `Conv1d` or `Conv2d` without the zeros of its kernel, in C.

    >>> conv = nn.Conv1d(4, 2, 3, padding=1)
    >>> x = torch.ones(1, 4, 10)
    >>> torch.allclose(SparseConv.of(conv)(x), conv(x), atol=1e-6)
    True
    """

    bias: Tensor | None

    def __init__(self, conv: nn.Conv1d | nn.Conv2d) -> None:
        super().__init__()
        self.dims = conv.weight.ndim - 2
        self.in_channels, self.out_channels = conv.in_channels, conv.out_channels
        self.kernel_size, self.stride, self.padding = conv.kernel_size, conv.stride, conv.padding
        self.dilation, self.groups = conv.dilation, conv.groups
        self.padding_mode = conv.padding_mode
        self.hold("weight", Kept.of(conv.weight))
        bias = conv.bias
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    @classmethod
    def of(cls, conv: nn.Conv1d | nn.Conv2d) -> SparseConv:
        """The sparse form of a convolution."""
        return cls(conv)

    @property
    def weight(self) -> Float[Tensor, "..."]:
        """The dense kernel, made anew at every access."""
        return self.dense_of("weight")

    def forward(self, x: Tensor) -> Tensor:
        """The convolution's output."""
        if torch.compiler.is_compiling():
            return self.dense(x)
        channels = x.shape[-1 - self.dims] if x.ndim > self.dims else 0
        check_input(x, channels, self.in_channels)
        batched = x.ndim == self.dims + 2
        images = x if batched else x[None]
        pads = _pads(self)
        sides = [side for pair in reversed(pads) for side in pair]
        if any(before != after for before, after in pads) or self.padding_mode != "zeros":
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            images = F.pad(images, sides, mode)
            pads = [(0, 0)] * self.dims
        out = self._run(images, [before for before, _ in pads])
        return out if batched else out[0]

    def _run(self, images: Tensor, padding: list[int]) -> Tensor:
        """The output for padded images; a line is an image with a height of one."""
        flat = self.dims == 1
        in_shape = (self.in_channels, 1 if flat else images.shape[2], images.shape[-1])

        def pair(values: tuple[int, ...] | list[int], filler: int) -> tuple[int, int]:
            return (filler, values[0]) if flat else (values[0], values[1])

        kept = self.kept("weight")
        if flat:
            kept = Kept(kept.start, kept.column, kept.value, (*kept.shape[:2], 1, kept.shape[2]))
        settings = {
            "stride": pair(self.stride, 1),
            "padding": pair(padding, 0),
            "dilation": pair(self.dilation, 1),
            "groups": self.groups,
        }
        found = packed(kept, self.bias, in_shape, **settings)
        shape = found.chain.out_shape[1:]
        sizes = shape[1:] if flat else shape
        if not images.numel() or not len(kept.value):
            out = images.new_zeros(len(images), self.out_channels, *sizes)
            return out if self.bias is None else out + self.bias.view(-1, *[1] * self.dims)
        return found(images, kept).view(len(images), self.out_channels, *sizes)

    def dense(self, x: Tensor) -> Tensor:
        """The output by torch, for compilers."""
        convolve: Any = F.conv1d if self.dims == 1 else F.conv2d
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            sides = [side for pair in reversed(_pads(self)) for side in pair]
            x, padding = F.pad(x, sides, self.padding_mode), 0
        settings = (self.stride, padding, self.dilation, self.groups)
        out: Tensor = convolve(x, self.weight, self.bias, *settings)
        return out

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("weight").sparsity
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, groups={self.groups}, {zeros:.1%} zeros{self.note}"
        )


def _pads(conv: SparseConv) -> list[tuple[int, int]]:
    """Zeros before and after, for each dimension."""
    if conv.padding == "valid":
        return [(0, 0)] * conv.dims
    if conv.padding == "same":
        totals = [
            dil * (taps - 1) for dil, taps in zip(conv.dilation, conv.kernel_size, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    assert not isinstance(conv.padding, str)
    return [(side, side) for side in conv.padding]
