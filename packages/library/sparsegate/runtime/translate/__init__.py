"""Translates a captured model into a network of the engine."""

from .translator import Translator, translated

__all__ = ["Translator", "translated"]
