"""Writes settings as flags of the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def changed_flags(settings: Any, usual: Any, prefix: str = "") -> list[str]:
    """The flags that turn the usual settings of a dataclass into the given ones.

    >>> @dataclasses.dataclass
    ... class Settings:
    ...     flip: bool = False
    ...     only: tuple[str, ...] = ("*",)
    >>> changed_flags(Settings(True, ("fc1.*", "fc2.*")), Settings())
    ['--flip', '--only', 'fc1.*', 'fc2.*']
    """
    words: list[str] = []
    for field in dataclasses.fields(settings):
        value, other = getattr(settings, field.name), getattr(usual, field.name)
        name = field.name.replace("_", "-")
        if value == other:
            continue
        if dataclasses.is_dataclass(value):
            words += changed_flags(value, other, f"{prefix}{name}.")
        elif isinstance(value, bool):
            words.append(f"--{prefix}{name}" if value else f"--{prefix}no-{name}")
        else:
            words += _flag(f"--{prefix}{name}", _words(value))
    return words


def _flag(name: str, values: list[str]) -> list[str]:
    if len(values) == 1 and values[0].startswith("-"):
        return [f"{name}={values[0]}"]  # or it would be taken for a flag
    return [name, *values]


def _words(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, tuple):
        return [word for element in value for word in _words(element)]
    return [str(value)]
