"""Integrates sparsegate with other libraries; import only the integration that you use."""

from .hub import from_hub, push_to_hub
from .hub_file import hub_file

__all__ = ["from_hub", "hub_file", "push_to_hub"]
