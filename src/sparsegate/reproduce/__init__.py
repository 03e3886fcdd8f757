"""The experiments of the paper."""

from .recipes import RECIPES

__all__ = ["RECIPES"]
