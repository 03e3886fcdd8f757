"""Launches Triton kernels with little overhead: compiles at the first call, then calls directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

MISSING = 'sparse layers on CUDA need Triton: pip install "sparsegate[gpu]"'


@dataclass
class Launch:
    """A kernel with its grid and constants; all calls need arguments of equal types."""

    module: str
    """Name of the module that has the kernel."""
    kernel: str
    grid: tuple[int, int]
    constants: dict[str, Any]
    """Constants, in the order of the kernel's parameters; they follow the arguments."""
    options: dict[str, Any] = field(default_factory=dict)
    """Compiler options: the number of warps, and whether the kernel begins early."""
    _ready: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    def __call__(self, *arguments: Any) -> None:
        """Starts the kernel.

        The first call compiles it. Later calls skip Triton's inspection of the arguments, which
        takes most of a launch.
        """
        if self._ready is not None:
            self._ready(*arguments, *self.constants.values())
            return
        kernel = getattr(load_kernels(self.module), self.kernel)
        compiled = kernel[self.grid](*arguments, **self.constants, **self.options)
        self._ready = compiled and compiled[(*self.grid, 1)]  # None in Triton's interpreter

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ready": None}  # a kernel that is loaded on a GPU cannot be copied


def load_kernels(name: str) -> ModuleType:
    """Imports a module of kernels, and Triton with it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(MISSING) from error
