"""Integrates sparsegate with other libraries; import only the integration that you use."""

from .hub import from_hub, push_to_hub

__all__ = ["from_hub", "push_to_hub"]
