"""Refuses the saved state of a plan that has another target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .target import Target


def settings_of(target: Target, steps: int) -> dict[str, Any]:
    """What makes a plan another one than that of another target, as plain values."""
    settings = {name: value for name, value in vars(target).items() if value is not None}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            settings[name] = [[pattern, share] for pattern, share in value.items()]
        elif isinstance(value, tuple):
            settings[name] = list(value)
    return {"steps": steps, **settings}


def check_same_target(state: dict[str, Any], target: Target, steps: int) -> None:
    """Raises a `ValueError` if the saved state of a plan is that of another target."""
    own = settings_of(target, steps)
    changed = [
        f"{name}={value} (now {own[name]})"
        for name, value in state.get("asked", own).items()
        if name in own and own[name] != value
    ]
    if changed:
        raise ValueError(
            f"the saved optimizer had another target: {', '.join(changed)}; build this one "
            "with the target= and steps= of the saved one"
        )
