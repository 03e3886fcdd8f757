"""Runs sparse networks without torch: kernels in C, and what they read."""

from .version import VERSION as __version__

__all__ = ["__version__"]
