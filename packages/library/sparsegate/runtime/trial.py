"""Runs a model without a trace, and finds out whether its forward remembers earlier calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.graph import outputs

from .modules import stand_in

NEAR = 1e-3
"""Largest difference from the model's outputs, relative to the largest of them."""
DEEPEST = 4
"""How far attributes of attributes are compared."""
SHALLOW = 1
"""The same for what lies outside of modules."""
OF_TORCH = frozenset(vars(nn.Module())) - {"_buffers"}
SIMPLE = (bool, int, float, complex, str, bytes)


def tried(model: nn.Module, given: tuple[Any, ...] | dict[str, Any]) -> tuple[list[Tensor], bool]:
    """The model's outputs for an example, and whether its forward remembers earlier calls.

    A forward that computes something once and keeps it, such as a table, does not count.
    """
    trial = stand_in(model)
    before = list(_state(trial))
    found = outputs(trial, given)
    after = list(_state(trial))
    if _are_equal(before, after):
        return found, False
    outputs(trial, given)
    return found, not _are_equal(after, list(_state(trial)))


def are_near(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> bool:
    """Whether outputs have the wanted types, shapes and, to a thousandth of the largest, values."""
    return len(found) == len(wanted) and all(
        one.shape == other.shape and one.dtype == other.dtype and _is_near(one, other)
        for one, other in zip(found, wanted, strict=True)
    )


def _is_near(one: Tensor, other: Tensor) -> bool:
    if not (other.is_floating_point() or other.is_complex()):
        return True  # a rounding error may choose another index
    wide = torch.complex128 if other.is_complex() else torch.float64
    one, other = one.detach().to(wide), other.detach().to(wide)
    sizes = other.abs().nan_to_num(0, 0, 0)
    largest = float(sizes.max()) if sizes.numel() else 0.0
    return torch.allclose(one, other, rtol=0, atol=NEAR * largest, equal_nan=True)


def _state(model: nn.Module) -> Iterator[tuple[Any, Any]]:
    """Everything that a forward can change: objects, and what tells their contents apart."""
    seen: set[int] = set()
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in OF_TORCH:
                yield from _parts(value, DEEPEST, seen)
    for kind in {type(module) for module in model.modules()}:
        for value in _around(kind):
            if isinstance(value, (*SIMPLE, list, dict, set, Tensor)):
                yield from _parts(value, SHALLOW, seen)


def _around(kind: type[nn.Module]) -> Iterator[Any]:
    """What a forward can reach besides its module: class attributes, closures and globals."""
    if kind.__module__.partition(".")[0] in ("torch", "transformers"):
        return
    yield from (value for name, value in sorted(vars(kind).items()) if not name.startswith("__"))
    forward = getattr(kind.forward, "__wrapped__", kind.forward)
    code = getattr(forward, "__code__", None)
    if code is None:
        return
    for cell in forward.__closure__ or ():
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            yield cell.cell_contents
    yield from (forward.__globals__.get(name) for name in code.co_names)


def _parts(value: Any, depth: int, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, SIMPLE):
        yield None, repr(value)
        return
    # The object itself is kept, so that no later one takes its address.
    counts = isinstance(value, Tensor) and not value.is_inference()
    yield value, value._version if counts else 0
    if not depth or id(value) in seen or isinstance(value, Tensor | nn.Module | type):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inside = [*value, *value.values()]
    elif isinstance(value, Sequence | set | frozenset):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
    yield None, len(inside)
    for one in inside:
        yield from _parts(one, depth - 1, seen)


def _are_equal(one: list[tuple[Any, Any]], other: list[tuple[Any, Any]]) -> bool:
    return len(one) == len(other) and all(
        mine is yours and detail == word
        for (mine, detail), (yours, word) in zip(one, other, strict=True)
    )
