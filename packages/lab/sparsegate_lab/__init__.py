"""The laboratory of sparsegate: runs, recipes, methods to compare with, reports, and the paper."""

from sparsegate_runtime.version import VERSION as __version__

__all__ = ["__version__"]
