"""Reads and runs sparse networks without torch."""

from .version import VERSION as __version__

__all__ = ["__version__"]
