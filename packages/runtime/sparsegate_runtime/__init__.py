"""Reads and runs sparse networks without torch."""

from .network_file import Network
from .version import VERSION as __version__

__all__ = ["Network", "__version__"]
