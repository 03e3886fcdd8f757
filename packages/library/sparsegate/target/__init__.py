"""Targets: what a person wants of a network, and the price that gives it."""

from .control import Control, Motion
from .fisher_order import place_
from .found import Found
from .target import Target
from .unreachable import UnreachableTarget

__all__ = ["Control", "Found", "Motion", "Target", "UnreachableTarget", "place_"]
