"""A transposed convolution whose kernel is sparse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .conv import convolve
from .kept import Kept
from .sparse_module import SparseModule, checked


class SparseTransposed(SparseModule):
    """Computes a `ConvTranspose1d` or `ConvTranspose2d` without the zeros of its kernel, in C.

    >>> conv = nn.ConvTranspose1d(4, 2, 4, stride=2)
    >>> x = torch.ones(1, 4, 10)
    >>> torch.allclose(SparseTransposed.of(conv)(x), conv(x), atol=1e-6)
    True

    It runs as an ordinary convolution: each output channel has a row for each phase of the stride,
    and the rows of a channel are interleaved afterwards.
    """

    bias: Tensor | None

    def __init__(self, conv: nn.ConvTranspose1d | nn.ConvTranspose2d) -> None:
        super().__init__()
        self.dims = conv.weight.ndim - 2
        self.in_channels, self.out_channels = conv.in_channels, conv.out_channels
        self.kernel_size, self.stride = conv.kernel_size, conv.stride
        assert not isinstance(conv.padding, str)
        self.padding: tuple[int, ...] = conv.padding
        self.dilation, self.groups = conv.dilation, conv.groups
        self.output_padding = conv.output_padding
        self.hold("weight", Kept.of(conv.weight))
        self.hold_bias(conv.bias)
        self._hold_phases()

    @classmethod
    def of(cls, conv: nn.ConvTranspose1d | nn.ConvTranspose2d) -> SparseTransposed:
        """Makes the sparse form of a transposed convolution."""
        return cls(conv)

    @property
    def weight(self) -> Float[Tensor, "..."]:
        """The dense kernel; its values are computed at every read."""
        return self.deferred("weight")

    def _hold_phases(self) -> None:
        """Makes the kernel of the ordinary convolution from the weights of the transposed one."""
        made = Kept.of(_phases(self.dense_of("weight"), self.stride, self.dilation, self.groups))
        self.phases_shape = made.shape
        for part in ("start", "column", "value"):
            self.register_buffer(f"phases_{part}", getattr(made, part), persistent=False)
        spread = None if self.bias is None else self.bias.repeat_interleave(prod(self.stride))
        self.register_buffer("phases_bias", spread, persistent=False)

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Returns the transposed convolution's output."""
        if not torch.compiler.is_compiling():
            channels = x.shape[-1 - self.dims] if x.ndim > self.dims else 0
            x = checked(x, channels, self.in_channels)
        batched = x.ndim == self.dims + 2
        images = x if batched else x[None]
        sizes = self._sizes(images, output_size)
        sides: list[int] = []
        for dim in reversed(range(self.dims)):
            first, taps = self.padding[dim] // self.stride[dim], self.phases_shape[2 + dim]
            count = -(-(self.padding[dim] + sizes[dim]) // self.stride[dim]) - first
            before = taps - 1 - first
            sides += [before, count + first - images.shape[2 + dim]]
        ones, nothing = [1 for _ in sizes], [0 for _ in sizes]
        kept = Kept(self.phases_start, self.phases_column, self.phases_value, self.phases_shape)  # type: ignore[arg-type]
        padded = F.pad(images, sides)
        out = convolve(padded, kept, self.phases_bias, ones, nothing, ones, self.groups)  # type: ignore[arg-type]
        out = self._interleaved(out, sizes)
        return out if batched else out[0]

    def _interleaved(self, out: Tensor, sizes: Sequence[int]) -> Tensor:
        """Interleaves the phases of each channel."""
        if any(step > 1 for step in self.stride):
            places = out.shape[2:]
            out = out.reshape(len(out), self.out_channels, *self.stride, *places)
            order = [axis for dim in range(self.dims) for axis in (2 + self.dims + dim, 2 + dim)]
            wide = [place * step for place, step in zip(places, self.stride, strict=True)]
            out = out.permute(0, 1, *order).reshape(len(out), self.out_channels, *wide)
        for dim, size in enumerate(sizes):
            out = out.narrow(2 + dim, self.padding[dim] % self.stride[dim], size)
        return out.contiguous()

    def _sizes(self, images: Tensor, wanted: Sequence[int] | None) -> list[int]:
        least = [
            (size - 1) * step - 2 * pad + apart * (taps - 1) + 1
            for size, step, pad, apart, taps in zip(
                images.shape[2:],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        ]
        if wanted is None:
            return [one + more for one, more in zip(least, self.output_padding, strict=True)]
        wanted = list(wanted)[-self.dims :]
        most = [one + step - 1 for one, step in zip(least, self.stride, strict=True)]
        if any(not a <= size <= b for a, size, b in zip(least, wanted, most, strict=True)):
            raise ValueError(f"expected an output size from {least} to {most}, got {wanted}")
        return wanted

    def _load_from_state_dict(self, *args: object) -> None:
        super()._load_from_state_dict(*args)  # type: ignore[arg-type]
        self._hold_phases()

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        zeros = self.kept("weight").sparsity
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, groups={self.groups}, {zeros:.1%} zeros{self.note}"
        )


def _phases(
    weight: Tensor, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Float[Tensor, "rows columns *taps"]:
    """The kernel of the ordinary convolution: output channel and phase, then input channel and tap.

    With p + o = stride * q + phase, output o reads input q - j through tap stride * j + phase.
    """
    ins, outs = weight.shape[:2]
    made = weight.detach().reshape(groups, ins // groups, outs, *weight.shape[2:]).transpose(1, 2)
    made = made.reshape(groups * outs, ins // groups, *weight.shape[2:])
    for dim, (step, apart) in enumerate(zip(stride, dilation, strict=True)):
        axis = 2 + dim
        taps = apart * (made.shape[axis] - 1) + 1
        every = -(-taps // step)
        wide = made.new_zeros(*made.shape[:axis], every * step, *made.shape[axis + 1 :])
        wide.narrow(axis, 0, taps).movedim(axis, 0)[::apart] = made.movedim(axis, 0)
        made = wide.reshape(*wide.shape[:axis], every, step, *wide.shape[axis + 1 :])
        made = made.flip(axis).movedim(axis + 1, -1)
    dims = len(stride)  # rows columns *taps *phases -> rows *phases columns *taps
    phases = range(made.ndim - dims, made.ndim)
    return made.permute(0, *phases, 1, *range(2, 2 + dims)).flatten(0, dims).contiguous()
