"""Targets: what a person wants of a network, and the price that gives it."""

from .target import Target

__all__ = ["Target"]
