"""Launches of Triton's kernels that cost little: compiled at the first call, and from then on called directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

MISSING = 'sparse layers on CUDA need Triton: pip install "sparsegate[gpu]"'


@dataclass
class Launch:
    """A kernel, its grid and its constants; every call passes arguments of the same types and alignment."""

    module: str
    """Where the kernel is, as one imports it."""
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
    """A module of kernels, by name; Triton is imported here, not before."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(MISSING) from error
