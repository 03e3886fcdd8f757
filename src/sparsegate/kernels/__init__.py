"""Kernels in C, built when the package is installed, and how those in Triton are launched; all have another way."""

from .launch import MISSING, Launch, load_kernels
from .library import KERNELS, explain_missing

__all__ = ["KERNELS", "MISSING", "Launch", "explain_missing", "load_kernels"]
