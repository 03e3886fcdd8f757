"""Launches of Triton's kernels that cost little: compiled at the first call, and from then on called directly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .bands import QUANTUM, Band

MISSING = 'sparse layers on CUDA need Triton: pip install "sparsegate[gpu]"'


@dataclass
class Launch:
    """A kernel, its grid and its constants; every call passes arguments of the same types and alignment."""

    module: str
    kernel: str
    grid: tuple[int, int]
    constants: dict[str, Any]
    """In the order of the kernel's parameters, after the arguments."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the compiler: warps, and whether it begins early."""
    _ready: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    def __call__(self, *arguments: Any) -> None:
        """Starts the kernel; after the first time without looking its arguments over, which takes most of a launch."""
        if self._ready is not None:
            self._ready(*arguments, *self.constants.values())
            return
        kernel = getattr(load_kernels(self.module), self.kernel)
        compiled = kernel[self.grid](*arguments, **self.constants, **self.options)
        self._ready = compiled and compiled[(*self.grid, 1)]  # the interpreter compiles nothing

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ready": None}  # what is loaded on a GPU is not copied


def load_kernels(name: str) -> ModuleType:
    """One of the room's modules of kernels, by name; Triton is imported here, not before."""
    try:
        return import_module(f".{name}", __package__)
    except ImportError as error:
        raise ImportError(MISSING) from error


@cache
def begins_early(device: torch.device) -> bool:
    """Whether a kernel can load weights while the one before it still runs (programmatic dependent launch)."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)


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
    return tuple(16 * number + 2 for number in numbers), sum(-(-band.rows // rows) for band in bands)
