"""Kernels in C, built when the package is installed; every caller has another way to its result."""

from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "explain_missing"]
