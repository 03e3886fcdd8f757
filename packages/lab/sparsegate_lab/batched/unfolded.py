"""Computes convolutions of several members as one batched matrix product, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

ALIGNED = 8  # elements; alignment of matrix rows for tensor cores, in 16 bits too
PARTS = 16  # of the sum over all positions in the gradient of a weight, to fill a GPU


def fits_unfolding(stride: Any, padding: Any, dilation: Any, groups: int) -> bool:
    """Whether a convolution can be unfolded: stride one, no padding, dilation or groups."""
    return (stride, padding, dilation, groups) == ((1, 1), (0, 0), (1, 1), 1)


def unfolded_conv(
    images: Float[Tensor, "batch channel height width"],
    weight: Float[Tensor, "member unit channel high wide"],
    bias: Float[Tensor, "member unit"] | None,
) -> Float[Tensor, "batch unit height2 width2"]:
    """Computes every member's convolution of its part of the batch, without padding."""
    if torch.is_autocast_enabled(images.device.type):
        kind = torch.get_autocast_dtype(images.device.type)
        images, weight = images.to(kind), weight.to(kind)
    made: Tensor = _Unfolded.apply(images, weight)  # type: ignore[no-untyped-call]
    if bias is None:
        return made
    members = len(weight)
    placed = made.view(members, -1, *made.shape[1:]) + bias.to(made.dtype)[:, None, :, None, None]
    return placed.view(made.shape)


class _Unfolded(torch.autograd.Function):
    # Rows are positions, columns their inputs, ordered as in channels-last images:
    # (high, wide, channel).

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor) -> Tensor:
        members, units, channels, high, wide = weight.shape
        seen = _seen(images, high, wide)
        columns = _columns(seen, members)
        matrix = aligned(
            weight.permute(0, 3, 4, 2, 1).reshape(members, high * wide * channels, units)
        )
        ctx.save_for_backward(columns, matrix)
        ctx.shapes = (images.shape, weight.shape)
        with convolution_precision():
            made = torch.bmm(columns, matrix)
        placed = made[..., :units].reshape(len(images), *seen.shape[1:3], units)
        return placed.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor]:
        (grad,), (columns, matrix) = grads, ctx.saved_tensors
        image_shape, (members, units, channels, high, wide) = ctx.shapes
        rows = grad.permute(0, 2, 3, 1).reshape(members, -1, units)
        rows = F.pad(rows, (0, matrix.shape[2] - units))
        with convolution_precision():
            to_matrix = _long_product(columns, rows)
            to_columns = (
                torch.bmm(rows, matrix.transpose(1, 2)) if ctx.needs_input_grad[0] else None
            )
        real = to_matrix[:, : high * wide * channels, :units].reshape(
            members, high, wide, channels, units
        )
        to_images = None if to_columns is None else folded(to_columns, image_shape, high, wide)
        return to_images, real.permute(0, 4, 3, 1, 2)


def _seen(images: Tensor, high: int, wide: int) -> Tensor:
    """Returns the inputs of every position as a view: image, row, column, high, wide, channel."""
    last = images.permute(0, 2, 3, 1).contiguous()
    return last.unfold(1, high, 1).unfold(2, wide, 1).permute(0, 1, 2, 4, 5, 3)


def _columns(seen: Tensor, members: int) -> Tensor:
    """Returns a copy of the inputs of every position, one row each, padded with zeros."""
    size = seen.shape[3:].numel()
    columns = seen.new_empty(*seen.shape[:3], _next(size))
    columns[..., size:].zero_()
    columns[..., :size].unflatten(-1, seen.shape[3:]).copy_(seen)  # type: ignore[no-untyped-call]
    return columns.view(members, -1, columns.shape[-1])


def aligned(matrix: Float[Tensor, "member taps unit"]) -> Float[Tensor, "member more units"]:
    """Returns the matrix of every member's weight, padded with zeros in both dimensions."""
    return F.pad(
        matrix, tuple(each for size in matrix.shape[:0:-1] for each in (0, _next(size) - size))
    )


def _long_product(columns: Tensor, rows: Tensor) -> Tensor:
    """Computes columns^T @ rows for every member, with the long sum in parts."""
    parts = PARTS if columns.shape[1] % PARTS == 0 else 1
    split = [each.reshape(len(each) * parts, -1, each.shape[2]) for each in (columns, rows)]
    made = torch.bmm(split[0].transpose(1, 2), split[1])
    return (
        made.view(len(columns), parts, *made.shape[1:]).sum(1, dtype=torch.float32).to(made.dtype)
    )


def folded(
    to_columns: Float[Tensor, "member place taps"], shape: torch.Size, high: int, wide: int
) -> Float[Tensor, "batch channel height width"]:
    """Computes every pixel's gradient: the sum over the positions that read it."""
    count, channels, height, width = shape
    tall, broad = height - high + 1, width - wide + 1
    seen = to_columns.view(count, tall, broad, -1)[..., : high * wide * channels]
    seen = seen.unflatten(-1, (high, wide, channels)).permute(0, 1, 2, 5, 3, 4)  # type: ignore[no-untyped-call]
    rows = torch.ops.aten.unfold_backward(seen, [count, tall, width, channels, high], 2, wide, 1)
    columns: Tensor = torch.ops.aten.unfold_backward(
        rows, [count, height, width, channels], 1, high, 1
    )
    return columns.permute(0, 3, 1, 2)


def _next(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


@contextmanager
def convolution_precision() -> Iterator[None]:
    """Computes products as torch computes convolutions: in TF32, unless that is turned off."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
