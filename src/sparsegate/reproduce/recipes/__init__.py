"""Runs by name, each a function, so that nothing is built before it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from sparsegate.methods import LearnedGates
from sparsegate.registry import Registry
from sparsegate.train import Run

from .lenet5 import demo, method1, method2

RECIPES: Registry[Callable[[], Run[LearnedGates]]] = Registry(
    "recipe", {"lenet5-demo": demo, "lenet5-method1": method1, "lenet5-method2": method2}
)

__all__ = ["RECIPES"]
