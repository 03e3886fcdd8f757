"""Encodes the kept weights of bands as one flat array of words."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .bands import Band

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Types that the kernels multiply."""
KINDS = {torch.bfloat16: 0, torch.float16: 1}
"""Kinds of 32-bit words: the value is the upper half, the column is the lower half."""
NARROW, WIDE = 2, 3  # kinds with separate arrays of values and of 16- or 32-bit columns
MAX_NARROW = 1 << 16


def kind_of(dtype: torch.dtype, num_columns: int) -> int:
    """Returns the kind of storage for weights of this dtype; `kernels` uses the same numbers.

    >>> kind_of(torch.bfloat16, 4096), kind_of(torch.float32, 4096), kind_of(torch.float16, 70_000)
    (0, 2, 3)
    """
    if dtype not in DTYPES:
        raise ValueError(
            f"sparse layers on CUDA take weights in bf16, fp16 or fp32, got {dtype}; "
            "convert the model first"
        )
    return WIDE if num_columns > MAX_NARROW else KINDS.get(dtype, NARROW)


def encode(
    weight: Float[Tensor, "rows columns"], bands: tuple[Band, ...]
) -> tuple[Int[Tensor, " words"], Float[Tensor, " values"]]:
    """Encodes rows as columns and values.

    For kinds 0 and 1 the columns are whole words, which include the values, and the values are
    empty.
    """
    columns, values = _pad(weight, bands)
    kind = kind_of(weight.dtype, weight.shape[1])
    if kind < NARROW:
        return (values.view(torch.int16).int() << 16) | columns, values[:0]
    return (columns.short() if kind == NARROW else columns), values


def decode(
    columns: Int[Tensor, " words"], values: Float[Tensor, " values"], kind: int
) -> tuple[Int[Tensor, " words"], Float[Tensor, " words"]]:
    """Returns the columns and values of all words, with padding."""
    if kind == WIDE:
        return columns.long(), values
    if kind < NARROW:
        values = (columns >> 16).short().view(values.dtype)
    return columns.long() & 0xFFFF, values


def _pad(weight: Tensor, bands: tuple[Band, ...]) -> tuple[Tensor, Tensor]:
    """Pads the columns and values of every row to the width of its band.

    Padding is zero at the row's last column, which is in cache already.
    """
    row, column = weight.nonzero(as_tuple=True)
    counts = torch.bincount(row, minlength=len(weight))
    ends = counts.cumsum(0)
    widths = torch.tensor([band.width for band in bands]).repeat_interleave(
        torch.tensor([band.rows for band in bands])
    )
    widths = widths.to(weight.device)
    starts = widths.cumsum(0) - widths
    last = torch.zeros_like(counts)
    last[counts > 0] = column[ends[counts > 0] - 1]
    columns = last.int().repeat_interleave(widths)
    values = weight.new_zeros(len(columns))
    at = starts[row] + torch.arange(len(row), device=row.device) - (ends - counts)[row]
    columns[at], values[at] = column.int(), weight[row, column]
    return columns, values
