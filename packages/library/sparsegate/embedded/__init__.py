"""Writes any network of the engine as C for microcontrollers: tables of weights and one arena."""

from .to_c import Form, to_c

__all__ = ["Form", "to_c"]
