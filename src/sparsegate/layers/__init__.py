"""Layers that stand in for fully connected ones with fewer numbers."""

from .low_rank import LowRank
from .replace import linears, replace_
from .stand_in import StandIn

__all__ = ["LowRank", "StandIn", "linears", "replace_"]
