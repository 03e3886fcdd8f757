"""The experiments of the paper."""

from .recipes import PUPILS, RECIPES, Pupil

__all__ = ["PUPILS", "RECIPES", "Pupil"]
