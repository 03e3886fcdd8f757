"""Kernels in C, built when the package is installed; who calls them has another way for when they are missing."""

from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "explain_missing"]
