"""Writes nested loops in C over tensors with strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

Body = Callable[[list[str]], list[str]]
"""The statements, from the index of every tensor."""


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose elements lie one after the other.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def broadcast_strides(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor that is repeated to another shape.

    >>> broadcast_strides((3, 1), (2, 3, 4))
    (0, 1, 0)
    """
    own = dense_strides(shape)
    strides = [0 if size == 1 else step for size, step in zip(shape, own, strict=True)]
    return (0,) * (len(to) - len(shape)) + tuple(strides)


def nest(
    shape: Sequence[int], strides: Sequence[Sequence[int]], body: Body, letter: str = "i"
) -> list[str]:
    """Loops over a shape, with as few dimensions as the strides allow.

    >>> nest((2, 3), [(3, 1), (0, 1)], lambda at: [f"y[{at[0]}] += x[{at[1]}];"])
    ['for (int32_t i0 = 0; i0 < 2; i0++)', 'for (int32_t i1 = 0; i1 < 3; i1++) {',
     '    y[i0 * 3 + i1] += x[i1];', '}']

    Args:
        shape: the size of every dimension.
        strides: those of every tensor.
        body: the statements inside.
        letter: the first letter of the counters.

    """
    sizes, steps = _merged(shape, strides)
    names = [f"{letter}{dim}" for dim in range(len(sizes))]
    inside = body([_index(names, own) for own in steps])
    if not names:
        return ["{", *(f"    {line}" for line in inside), "}"]
    heads = [
        f"for (int32_t {name} = 0; {name} < {size}; {name}++)"
        for name, size in zip(names, sizes, strict=True)
    ]
    heads[-1] += " {"
    return [*heads, *(f"    {line}" for line in inside), "}"]


def _merged(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Without dimensions of size one; neighbors that lie without gaps become one dimension."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for dim, size in enumerate(shape):
        if size == 1:
            continue
        joins = bool(sizes) and all(
            own[-1] == given[dim] * size for own, given in zip(steps, strides, strict=True)
        )
        if joins:
            sizes[-1] *= size
        else:
            sizes.append(size)
        for own, given in zip(steps, strides, strict=True):
            if joins:
                own[-1] = given[dim]
            else:
                own.append(given[dim])
    return sizes, steps


def _index(names: Sequence[str], steps: Sequence[int]) -> str:
    parts = [
        name if step == 1 else f"{name} * {step}"
        for name, step in zip(names, steps, strict=True)
        if step
    ]
    return " + ".join(parts) or "0"
