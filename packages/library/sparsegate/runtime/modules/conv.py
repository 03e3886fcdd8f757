"""A convolution in one or two dimensions whose kernel is sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .kept import Kept, packed
from .sparse_module import SparseModule, checked


class SparseConv(SparseModule):
    """Computes a `Conv1d` or `Conv2d` without the zeros of its kernel, in C.

    >>> conv = nn.Conv1d(4, 2, 3, padding=1)
    >>> x = torch.ones(1, 4, 10)
    >>> torch.allclose(SparseConv.of(conv)(x), conv(x), atol=1e-6)
    True

    `torch.compile` and `torch.export` see it as the operator `sparsegate::convolution`.
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
        self.hold_bias(conv.bias)

    @classmethod
    def of(cls, conv: nn.Conv1d | nn.Conv2d) -> SparseConv:
        """Makes the sparse form of a convolution."""
        return cls(conv)

    @property
    def weight(self) -> Float[Tensor, "..."]:
        """The dense kernel; its values are computed at every read."""
        return self.deferred("weight")

    def forward(self, x: Tensor) -> Tensor:
        """Returns the convolution's output."""
        if not torch.compiler.is_compiling():
            channels = x.shape[-1 - self.dims] if x.ndim > self.dims else 0
            x = checked(x, channels, self.in_channels)
        batched = x.ndim == self.dims + 2
        images = x if batched else x[None]
        pads = _pads(self)
        padding = [before for before, _ in pads]
        if any(before != after for before, after in pads) or self.padding_mode != "zeros":
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            images = F.pad(images, [side for pair in reversed(pads) for side in pair], mode)
            padding = [0 for _ in pads]
        settings = (self.stride, padding, self.dilation, self.groups)
        out = convolve(images, self.kept("weight"), self.bias, *settings)
        return out if batched else out[0]

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("weight").sparsity
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, groups={self.groups}, {zeros:.1%} zeros{self.note}"
        )


def convolve(
    images: Tensor,
    kept: Kept,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolves images or lines with a sparse kernel; compilers see one operator."""
    settings = (list(stride), list(padding), list(dilation), groups)
    if torch.compiler.is_compiling():
        parts = (kept.start, kept.column, kept.value, bias, list(kept.shape))
        made: Tensor = sparse_convolution(images, *parts, *settings)
        return made
    return _run(images, kept, bias, *settings)


def _run(
    images: Tensor,
    kept: Kept,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    sizes = _out_sizes(images, kept.shape, stride, padding, dilation)
    shape = (len(images), kept.shape[0], *sizes)
    if not images.numel() or not len(kept.value) or min(sizes) <= 0:
        out = images.new_zeros(shape)
        return out if bias is None else out + bias.view(-1, *[1 for _ in sizes])
    flat = len(sizes) == 1  # a line is an image with a height of one
    in_shape = (images.shape[1], 1 if flat else images.shape[2], images.shape[-1])
    weight = Kept(kept.start, kept.column, kept.value, (*kept.shape[:2], 1, kept.shape[2]))
    pairs = {
        "stride": (1, *stride)[-2:],
        "padding": (0, *padding)[-2:],
        "dilation": (1, *dilation)[-2:],
    }
    weight = weight if flat else kept
    found = packed(weight, bias, in_shape, groups=groups, **pairs)
    if not found.most:
        dense: Any = F.conv1d if flat else F.conv2d
        wide: Tensor = dense(images, kept.dense(), bias, stride, padding, dilation, groups)
        return wide
    return found(images, weight).view(shape)


def _out_sizes(
    images: Tensor,
    shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    each = zip(images.shape[2:], shape[2:], stride, padding, dilation, strict=True)
    return [
        (size + 2 * pad - apart * (taps - 1) - 1) // step + 1
        for size, taps, step, pad, apart in each
    ]


def _pads(conv: SparseConv) -> list[tuple[int, int]]:
    """Zeros before and after, for each dimension."""
    if conv.padding == "valid":
        return [(0, 0) for _ in range(conv.dims)]
    if conv.padding == "same":
        totals = [
            dil * (taps - 1) for dil, taps in zip(conv.dilation, conv.kernel_size, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    assert not isinstance(conv.padding, str)
    return [(side, side) for side in conv.padding]


SCHEMA = (
    "(Tensor images, Tensor start, Tensor column, Tensor value, Tensor? bias, int[] shape, "
    "int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"
)


@torch.library.custom_op("sparsegate::convolution", mutates_args=(), schema=SCHEMA)
def sparse_convolution(
    images: Tensor,
    start: Tensor,
    column: Tensor,
    value: Tensor,
    bias: Tensor | None,
    shape: Sequence[int],
    *settings: Any,
) -> Tensor:
    """The convolution as an operator for compilers, with the kernel as rows of kept weights."""
    return _run(images, Kept(start, column, value, tuple(shape)), bias, *settings)


@sparse_convolution.register_fake
def _(images: Tensor, *others: Any) -> Tensor:
    shape, *settings = others[4:8]
    return images.new_empty((len(images), shape[0], *_out_sizes(images, shape, *settings)))
