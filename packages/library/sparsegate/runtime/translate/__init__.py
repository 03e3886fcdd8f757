"""Translates a captured model into a network of the engine."""

from .translator import Call, Rule, Translator, translated

__all__ = ["Call", "Rule", "Translator", "translated"]
