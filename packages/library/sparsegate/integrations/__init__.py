"""Makes sparsegate at home in other libraries; each is imported only when it is used."""

from .hub import from_hub, push_to_hub

__all__ = ["from_hub", "push_to_hub"]
