"""Targets: what training should end on, and the plan that finds the price for it."""

from .cut import highest
from .goal import fall
from .grouped_plan import GroupedPlan, target_plan
from .plan import TargetPlan
from .target import Found, Target, UnreachableTarget

__all__ = [
    "Found",
    "GroupedPlan",
    "Target",
    "TargetPlan",
    "UnreachableTarget",
    "fall",
    "highest",
    "target_plan",
]
