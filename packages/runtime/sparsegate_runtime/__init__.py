"""Reads and runs sparse networks without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .network_file import Network

__all__ = ["Network", "__version__"]


def __getattr__(name: str) -> Any:
    """Imports the engine when a network is loaded first, so that the package is imported fast."""
    if name == "Network":
        from .network_file import Network

        return Network
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
