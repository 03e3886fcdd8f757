"""What the launches of sparse layers have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .bands import QUANTUM, Band


@cache
def begins_early(device: torch.device) -> bool:
    """Whether a kernel can load weights while the one before it still runs (programmatic dependent launch)."""
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (9, 0)
    )


def is_aligned(x: Tensor) -> bool:
    """Whether it begins where 16 bytes can be loaded at once; Triton compiles another kernel if not."""
    return x.data_ptr() % 16 == 0


def on_device(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device: makes it the tensor's."""
    is_there = not x.is_cuda or x.device.index == torch.cuda.current_device()
    return nullcontext() if is_there else torch.cuda.device(x.device)


def settle(x: Tensor) -> None:
    """Waits until weights are written: kernels that begin early would read them before."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)


def places(bands: tuple[Band, ...], rows: int) -> tuple[tuple[int, ...], int]:
    """Rows and width of every band, as the kernels take them, and how many programs of so many rows there are."""
    numbers = [number for band in bands for number in (band.rows, band.width // QUANTUM)]
    return tuple(16 * number + 2 for number in numbers), sum(
        -(-band.rows // rows) for band in bands
    )


@cache
def multiprocessors(device: torch.device) -> int:
    """How many programs can run at once, each with all of a multiprocessor; 1 where there is no GPU."""
    return (
        torch.cuda.get_device_properties(device).multi_processor_count
        if device.type == "cuda"
        else 1
    )


def filled(programs: int, multiprocessors: int) -> int:
    """At least so many programs, to fill all multiprocessors, or a half, a third ... of them, evenly.

    The programs of a kernel that begins early go to any multiprocessor that has room: where the kernel before it has
    left gaps, two seem to share one, which takes up to twice as long.

    >>> filled(128, 132), filled(64, 132), filled(250, 132), filled(4, 1)
    (132, 66, 264, 4)
    """
    if programs >= multiprocessors:
        return -(-programs // multiprocessors) * multiprocessors
    return multiprocessors // (multiprocessors // programs)
