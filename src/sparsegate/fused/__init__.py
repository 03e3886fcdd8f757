"""Weights and gates moved together, in one pass over memory."""

from .optimizer import GatedSGD, take_over_

__all__ = ["GatedSGD", "take_over_"]
