"""Launches Triton kernels with little overhead: compiled once, then called directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

MISSING = 'sparse layers on CUDA need Triton: pip install "sparsegate[gpu]"'


@dataclass
class Launch:
    """A kernel with its grid and constants; all calls pass the same types and alignment."""

    module: str
    """The module of the kernel."""
    kernel: str
    grid: tuple[int, int]
    constants: dict[str, Any]
    """In the order of the kernel's parameters, after all arguments."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the compiler, such as the number of warps."""
    _ready: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    def __call__(self, *arguments: Any) -> None:
        """Launches the kernel; inspects its arguments only the first time, because that is slow."""
        if self._ready is not None:
            self._ready(*arguments, *self.constants.values())
            return
        kernel = getattr(load_kernels(self.module), self.kernel)
        compiled = kernel[self.grid](*arguments, **self.constants, **self.options)
        self._ready = compiled and compiled[(*self.grid, 1)]  # the interpreter compiles nothing

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ready": None}  # compiled code on a GPU is not copied


def load_kernels(name: str) -> ModuleType:
    """Imports a module of kernels by name, and with it Triton."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(MISSING) from error
