"""Translates a captured model into a network of the engine."""

from .call import Call
from .translator import Rule, Translator, translated

__all__ = ["Call", "Rule", "Translator", "translated"]
