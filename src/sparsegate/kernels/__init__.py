"""Kernels in C, built when the package is installed, and how those in Triton are launched; all have another way."""

from .calls import direct, hooks_of
from .launch import MISSING, Launch, load_kernels
from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "MISSING", "Launch", "direct", "explain_missing", "hooks_of", "load_kernels"]
