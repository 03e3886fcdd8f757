"""The machine and the package versions that produced a record."""

from __future__ import annotations

from sparsegate import bench
from sparsegate.bench import machine

__all__ = ["machine", "versions"]


def versions() -> dict[str, str]:
    """The versions of sparsegate, Python and the packages that training depends on."""
    return bench.versions("torch", "accelerate", "numpy")
