"""Checks every call against its signature, at a fraction of the time that jaxtyping's hook takes.

The hook wraps every function: each call binds its arguments, and checks them twice. Here only
functions with shapes in their signature are bound; beartype alone checks the others. A function
without annotations that need a check is left as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, config, install_import_hook

WRAPPED = "checked_by_tests"
typed = beartype(conf=BeartypeConf(violation_type=TypeCheckError))
shaped = functools.partial(jaxtyping.jaxtyped, typechecker=None)


def check_signatures(*packages: str) -> None:
    """Checks all calls of functions in these packages, which are imported afterwards."""
    jaxtyping.jaxtyped = lambda typechecker: checked  # what the hook writes above each function
    install_import_hook(packages, "beartype.beartype")


def checked(of: Any) -> Any:
    """A function, method or property that checks its calls; a dataclass that checks its fields."""
    if inspect.isclass(of):
        if dataclasses.is_dataclass(of) and not hasattr(of.__init__, WRAPPED):
            of.__init__ = _checked_function(of.__init__)
        return of
    if isinstance(of, classmethod | staticmethod):
        return type(of)(_checked_function(of.__func__))
    if isinstance(of, property):
        return property(*(each and _checked_function(each) for each in (of.fget, of.fset, of.fdel)))
    return _checked_function(of)


def _checked_function(function: Callable[..., Any]) -> Callable[..., Any]:
    written = function.__annotations__
    hints = {name: _resolved(hint, function) for name, hint in written.items()}
    function.__annotations__ = hints
    made = typed(function)
    function.__annotations__ = written
    if made is function:
        return function
    if any(map(_has_shape, hints.values())):
        made = shaped(made)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if config.jaxtyping_disable else made)(*args, **kwargs)

    setattr(call, WRAPPED, True)
    return call


def _resolved(hint: Any, function: Callable[..., Any]) -> Any:
    """The type that an annotation stands for; Any if its name is known to type checkers only."""
    if not isinstance(hint, str):
        return hint
    stub = type("Stub", (), {"__annotations__": {"value": hint}})
    try:
        return get_type_hints(stub, function.__globals__, include_extras=True)["value"]
    except Exception:  # whatever evaluating the words of an annotation may raise
        return Any


def _has_shape(hint: Any) -> bool:
    """Whether a type is, or contains, an array with a shape."""
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(map(_has_shape, hint if isinstance(hint, list) else get_args(hint)))
