"""Kernels in C, built when the package is installed; who calls them has another way for when they are missing."""

from .calls import direct, hooks_of
from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "direct", "explain_missing", "hooks_of"]
