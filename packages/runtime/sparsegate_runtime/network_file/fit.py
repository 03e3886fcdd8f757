"""Finds how sizes follow from others, given their values in several captures of one network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

from .sizes import MOST_SIZE, MOST_VARIABLES, Size


class DiffersError(ValueError):
    """Captures of one network that are not the same network."""


def fit(
    values: Sequence[int], variables: Sequence[Sequence[int]], first: int | None = None
) -> Size:
    """The simplest size that has these values.

    >>> fit([4, 6], [[2, 9], [3, 9]])
    Size(variables=(0,), factor=2, divisor=1, offset=0)

    Args:
        values: the size in each capture.
        variables: the values of all variables in each capture.
        first: the variable that is tried first.

    Raises:
        DiffersError: no size has these values.

    """
    if len(set(values)) == 1:
        return Size(offset=values[0])
    order = sorted(range(len(variables[0])), key=lambda index: (index != first, -index))
    for size in _candidates(values, variables, order):
        if all(
            _value(size, given) == value for given, value in zip(variables, values, strict=True)
        ):
            return size
    raise DiffersError(f"a size is {', '.join(map(str, values))}, which follows from no other")


def _value(size: Size, variables: Sequence[int]) -> int | None:
    try:
        return size.value(variables)
    except ValueError:
        return None


def _candidates(
    values: Sequence[int], variables: Sequence[Sequence[int]], order: Sequence[int]
) -> Iterator[Size]:
    lines = [_line(values, [given[index] for given in variables], index) for index in order]
    found = [line for line in lines if line is not None]
    products = list(_products(values, variables, sorted(order)))
    for index in order:
        yield Size((index,))
    yield from (line for line in found if not line.offset)
    yield from (product for product in products if product.divisor == 1)
    yield from found
    yield from products


def _products(
    values: Sequence[int], variables: Sequence[Sequence[int]], order: Sequence[int]
) -> Iterator[Size]:
    """Products of several variables with a factor, which divide without a rest."""
    for count in range(2, MOST_VARIABLES + 1):
        for chosen in combinations(order, count):
            products = [prod(given[index] for index in chosen) for given in variables]
            if not products[0] or not values[0]:
                continue
            share = Fraction(values[0], products[0])
            if all(
                share * product == value for product, value in zip(products, values, strict=True)
            ):
                yield Size(chosen, share.numerator, share.denominator)


def _line(values: Sequence[int], given: Sequence[int], index: int) -> Size | None:
    """A multiple of one variable, plus a number; None if the variable does not change."""
    other = next((at for at in range(len(given)) if given[at] != given[0]), None)
    if other is None:
        return None
    share = Fraction(values[other] - values[0], given[other] - given[0])
    if share <= 0 or max(share.numerator, share.denominator) > MOST_SIZE:
        return None
    offset = values[0] - share.numerator * given[0] // share.denominator
    return Size((index,), share.numerator, share.denominator, offset)
