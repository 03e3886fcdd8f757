"""Loads the C kernels, which are built when the package is installed. Callers work without them."""

from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "explain_missing"]
