"""Computes convolution, pooling and ReLU of many members in one Triton kernel."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .unfolded import aligned, convolution_precision, folded


class KernelTile(NamedTuple):
    """How a kernel divides its work."""

    rows: int
    """Positions or pixels of one program, or of one iteration of it."""
    width: int
    """Inputs of a position that are read at a time."""
    warps: int
    share: int = 0
    """Positions of one program, in the gradient of the weights."""


# By what is computed, and whether a position has more than 32 inputs; measured on an H200.
TILES = {
    ("forward", False): KernelTile(64, 32, 8),
    ("forward", True): KernelTile(32, 32, 4),
    ("weights", False): KernelTile(32, 32, 4, 1152),
    ("weights", True): KernelTile(32, 128, 8, 512),
}


class Shape(NamedTuple):
    """The sizes that the kernels are compiled for."""

    BATCH: int
    H: int
    W: int
    C: int
    N: int
    WIDE: int
    K: int
    TALL: int
    BROAD: int
    PRECISION: str

    @classmethod
    def of(cls, images: Tensor, weight: Tensor) -> Shape:
        """Returns the sizes for images and the weight of every member."""
        members, units, channels, high, wide = weight.shape
        count, _, height, width = images.shape
        tall, broad = (height - high + 1) // 2, (width - wide + 1) // 2
        # As torch computes convolutions on this GPU: in TF32, unless that is turned off.
        precision = "tf32" if torch.backends.cudnn.allow_tf32 and images.is_cuda else "ieee"
        taps = high * wide * channels
        return cls(
            count // members, height, width, channels, units, wide, taps, tall, broad, precision
        )

    @property
    def positions(self) -> int:
        """Pooled positions of one member's part of the batch."""
        return self.BATCH * self.TALL * self.BROAD


def pooled_conv(
    images: Float[Tensor, "batch channel height width"],
    weight: Float[Tensor, "member unit channel high wide"],
    bias: Float[Tensor, "member unit"],
) -> Float[Tensor, "batch unit tall broad"]:
    """`relu(max_pool2d(conv2d(images), 2))` of every member on its part of the batch."""
    made: Tensor = _Pooled.apply(images, weight, bias)  # type: ignore[no-untyped-call]
    return made


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        shape, members = Shape.of(images, weight), len(weight)
        last = images.permute(0, 2, 3, 1).contiguous()
        matrix = weight.permute(0, 3, 4, 2, 1).reshape(members, shape.K, shape.N).contiguous()
        out = last.new_empty(len(images), shape.TALL, shape.BROAD, shape.N)
        code = torch.empty_like(out, dtype=torch.uint8)
        tile = TILES["forward", shape.K > 32]
        _kernels().pooled_forward[(-(-shape.positions // tile.rows), members)](
            last,
            matrix,
            bias.contiguous(),
            out,
            code,
            **shape._asdict(),
            ROWS=tile.rows,
            BK=tile.width,
            NP=_power(shape.N),
            num_warps=tile.warps,
        )
        ctx.save_for_backward(last, matrix, code)
        ctx.shape, ctx.weight_shape = shape, weight.shape
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        last, matrix, code = ctx.saved_tensors
        grad = grads[0].permute(0, 2, 3, 1).contiguous()
        to_matrix, to_bias = _to_weights(last, grad, code, ctx.shape, len(matrix))
        members, units, channels, high, wide = ctx.weight_shape
        to_weight = to_matrix.view(members, high, wide, channels, units).permute(0, 4, 3, 1, 2)
        to_images = _to_images(matrix, grad, code, ctx.shape) if ctx.needs_input_grad[0] else None
        return to_images, to_weight, to_bias


def _to_weights(
    last: Tensor, grad: Tensor, code: Tensor, shape: Shape, members: int
) -> tuple[Tensor, Tensor]:
    tile = TILES["weights", shape.K > 32]
    parts = -(-shape.positions // tile.share)
    to_matrix = grad.new_empty(parts, members, shape.K, shape.N)
    to_bias = grad.new_empty(parts, members, shape.N)
    _kernels().pooled_weights[(-(-shape.K // tile.width), parts, members)](
        last,
        grad,
        code,
        to_matrix,
        to_bias,
        members,
        tile.share,
        **shape._asdict(),
        ROWS=tile.rows,
        BK=tile.width,
        NP=_power(shape.N),
        num_warps=tile.warps,
    )
    return to_matrix.sum(0), to_bias.sum(0)


def _to_images(matrix: Tensor, grad: Tensor, code: Tensor, shape: Shape) -> Tensor:
    """Computes the gradient by a matrix product and a fold, twice as fast as a pixel kernel."""
    high = shape.K // (shape.WIDE * shape.C)
    wide = aligned(matrix)
    rows = grad.new_zeros(len(grad), shape.H - high + 1, shape.W - shape.WIDE + 1, wide.shape[2])
    for corner in range(4):
        top, left = corner // 2, corner % 2
        part = rows[:, top : 2 * shape.TALL : 2, left : 2 * shape.BROAD : 2, : shape.N]
        part.copy_(torch.where(code == corner, grad, 0))
    with convolution_precision():
        to_columns = torch.bmm(rows.view(len(matrix), -1, wide.shape[2]), wide.transpose(1, 2))
    return folded(to_columns, torch.Size((len(grad), shape.C, shape.H, shape.W)), high, shape.WIDE)


def _power(size: int) -> int:
    """Returns the next power of two that a matrix unit supports."""
    return max(16, 1 << (size - 1).bit_length())


def _kernels() -> Any:
    return import_module(".triton_pooled_kernels", __package__)
