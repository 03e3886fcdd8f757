"""Device facts and grid sizes for launching the kernels of sparse layers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .bands import QUANTUM, Band


@cache
def begins_early(device: torch.device) -> bool:
    """Whether a kernel can load weights while the previous kernel runs.

    This is programmatic dependent launch, of compute capability 9.0 and later.
    """
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (9, 0)
    )


def is_aligned(x: Tensor) -> bool:
    """Whether the address is a multiple of 16 bytes; Triton compiles another kernel if not."""
    return x.data_ptr() % 16 == 0


def on_device(x: Tensor) -> AbstractContextManager[Any]:
    """Makes the tensor's device the current one, on which Triton launches."""
    is_there = not x.is_cuda or x.device.index == torch.cuda.current_device()
    return nullcontext() if is_there else torch.cuda.device(x.device)


def settle(x: Tensor) -> None:
    """Waits until weights are written, because kernels that begin early do not wait for them."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


def band_arguments(bands: tuple[Band, ...], rows: int) -> tuple[tuple[int, ...], int]:
    """Encodes the rows and widths of bands for `kernels.locate`.

    Also returns the number of programs if each has at most `rows` rows.
    """
    numbers = [number for band in bands for number in (band.rows, band.width // QUANTUM)]
    return tuple(16 * number + 2 for number in numbers), sum(
        -(-band.rows // rows) for band in bands
    )


@cache
def multiprocessors(device: torch.device) -> int:
    """Number of multiprocessors of the GPU; 1 for any other device."""
    return (
        torch.cuda.get_device_properties(device).multi_processor_count
        if device.type == "cuda"
        else 1
    )


def filled(programs: int, multiprocessors: int) -> int:
    """Rounds a number of programs up so that they spread evenly over the multiprocessors.

    The result is a multiple of `multiprocessors`, or a half, a third ... of it. Programs of a
    kernel that begins early go to any multiprocessor with room. If the previous kernel leaves
    gaps, two programs seem to share a multiprocessor, which takes up to twice as long.

    >>> filled(128, 132), filled(64, 132), filled(250, 132), filled(4, 1)
    (132, 66, 264, 4)
    """
    if programs >= multiprocessors:
        return -(-programs // multiprocessors) * multiprocessors
    return multiprocessors // (multiprocessors // programs)
