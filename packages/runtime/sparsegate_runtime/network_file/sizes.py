"""Sizes that are known, or follow from others when a network runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from sparsegate_runtime.files import ByteReader, varint

from .numbers import read_signed, signed

MOST_SIZE, MOST_DIMS, MOST_VARIABLES = 2**31 - 1, 8, 4


@dataclass(frozen=True)
class Size:
    """A constant, or `factor * (the product of the variables) // divisor + offset`.

    >>> Size(offset=3).value([7]), Size((0,), 1, 2, -1).value([7])
    (3, 2)
    """

    variables: tuple[int, ...] = ()
    """Numbers of variables: first the symbols of the network, then the sizes of a node's input."""
    factor: int = 1
    divisor: int = 1
    offset: int = 0

    def value(self, variables: Sequence[int]) -> int:
        """The size for these values of the variables; raises ValueError if it is impossible."""
        if any(index >= len(variables) for index in self.variables):
            raise ValueError("a size depends on a dimension that the tensor does not have")
        product = prod(variables[index] for index in self.variables)
        value = self.offset
        if self.variables:
            value += self.factor * product // self.divisor
        if not 0 <= value <= MOST_SIZE:
            raise ValueError(f"a size is {value}, expected 0 to {MOST_SIZE}")
        return value

    @property
    def _is_plain(self) -> bool:
        return (self.factor, self.divisor, self.offset) == (1, 1, 0)

    def encode(self) -> bytes:
        """The size as bytes."""
        if not self.variables:
            return varint(2 * self.offset)
        first = 1 + 2 * (not self._is_plain) + 4 * (len(self.variables) - 1)
        made = varint(first) + b"".join(map(varint, self.variables))
        if self._is_plain:
            return made
        return made + varint(self.factor) + varint(self.divisor) + signed(self.offset)

    def words(self, names: Sequence[str]) -> str:
        """The size in words, such as `batch` or `2 * length + 1`."""
        if not self.variables:
            return str(self.offset)
        made = " * ".join(names[index] for index in self.variables)
        made = made if self.factor == 1 else f"{self.factor} * {made}"
        made = made if self.divisor == 1 else f"{made} // {self.divisor}"
        return (
            made
            if not self.offset
            else f"{made} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"
        )


def read_size(reader: ByteReader) -> Size:
    """Reads what `Size.encode` wrote."""
    first = reader.varint(2 * MOST_SIZE)
    if first % 2 == 0:
        return Size(offset=first // 2)
    if first >= 4 * MOST_VARIABLES:
        raise ValueError(
            f"the size before byte {reader.position} must have at most {MOST_VARIABLES} variables"
        )
    variables = tuple(reader.varint(2 * MOST_DIMS) for _ in range(first // 4 + 1))
    if not first & 2:
        return Size(variables)
    factor, divisor = reader.varint(MOST_SIZE), reader.varint(MOST_SIZE)
    if not factor or not divisor:
        raise ValueError(f"the size before byte {reader.position} is divided or multiplied by 0")
    return Size(variables, factor, divisor, read_signed(reader, MOST_SIZE))


Shape = tuple[Size, ...]
"""The sizes of a tensor."""


def encode_shape(shape: Shape) -> bytes:
    """A shape as bytes."""
    return varint(len(shape)) + b"".join(size.encode() for size in shape)


def read_shape(reader: ByteReader) -> Shape:
    """Reads what `encode_shape` wrote."""
    return tuple(read_size(reader) for _ in range(reader.varint(MOST_DIMS)))
