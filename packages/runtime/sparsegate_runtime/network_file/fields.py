"""Codes the fields of nodes: each kind of field knows how it is written and read."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any

from sparsegate_runtime.engine import Function
from sparsegate_runtime.files import ByteReader, varint

from .numbers import (
    read_byte,
    read_double,
    read_signed,
    read_single,
    read_text,
    signed,
    single,
    text,
)
from .sizes import MOST_DIMS, MOST_SIZE, encode_shape, read_shape, read_size

CONSTANTS = {
    Function.LEAKY_RELU: 1,
    Function.ELU: 1,
    Function.CLAMP: 2,
    Function.AFFINE: 2,
    Function.POW: 1,
}
"""How many constants a function has, if it has any."""


@dataclass
class Named:
    """The tensors that nodes have named so far."""

    count: int
    """The number of tensors in the file."""
    seen: set[int] = field(default_factory=set)
    first: int = 0
    """The first tensor that was not named yet."""

    def note(self, index: int) -> None:
        """Takes a tensor into account."""
        self.seen.add(index)
        while self.first in self.seen:
            self.first += 1


class Field(abc.ABC):
    """CONTRACT How a field of a node is written and read."""

    @abc.abstractmethod
    def encode(self, value: Any, named: Named) -> bytes:
        """The field as bytes."""

    @abc.abstractmethod
    def read(self, reader: ByteReader, named: Named) -> Any:
        """The field; raises ValueError if it is impossible."""


@dataclass(frozen=True)
class Byte(Field):
    """A small number."""

    most: int

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """One byte."""
        return bytes([int(value)])

    def read(self, reader: ByteReader, named: Named) -> int:  # noqa: ARG002
        """One byte."""
        return read_byte(reader, self.most, "a setting")


@dataclass(frozen=True)
class Numbers(Field):
    """Several whole numbers; their count comes first unless it is fixed."""

    count: int | None
    least: int = 0
    most: int = MOST_SIZE

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """Varints, or signed numbers if they may be negative."""
        code = signed if self.least < 0 else varint
        head = b"" if self.count is not None else varint(len(value))
        return head + b"".join(code(int(one)) for one in value)

    def read(self, reader: ByteReader, named: Named) -> tuple[int, ...]:  # noqa: ARG002
        """The numbers, each in its range."""
        count = reader.varint(2 * MOST_DIMS) if self.count is None else self.count
        if self.least < 0:
            return tuple(read_signed(reader, self.most) for _ in range(count))
        found = tuple(reader.varint(self.most) for _ in range(count))
        if any(number < self.least for number in found):
            raise ValueError(
                f"a setting before byte {reader.position} must be at least {self.least}, "
                f"got {min(found)}"
            )
        return found


@dataclass(frozen=True)
class Single(Field):
    """A number with a fraction."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """Four bytes."""
        return single(value)

    def read(self, reader: ByteReader, named: Named) -> float:  # noqa: ARG002
        """Four bytes."""
        return read_single(reader)


@dataclass(frozen=True)
class Text(Field):
    """A name."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """Its length and its bytes."""
        return text(value)

    def read(self, reader: ByteReader, named: Named) -> str:  # noqa: ARG002
        """Its length and its bytes."""
        return read_text(reader)


@dataclass(frozen=True)
class SizeField(Field):
    """One size."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """As `Size` codes itself."""
        made: bytes = value.encode()
        return made

    def read(self, reader: ByteReader, named: Named) -> Any:  # noqa: ARG002
        """As `Size` codes itself."""
        return read_size(reader)


@dataclass(frozen=True)
class ShapeField(Field):
    """All sizes of a tensor."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """How many, and each."""
        return encode_shape(value)

    def read(self, reader: ByteReader, named: Named) -> Any:  # noqa: ARG002
        """How many, and each."""
        return read_shape(reader)


@dataclass(frozen=True)
class TensorField(Field):
    """A tensor of the weights, by its number."""

    def encode(self, value: Any, named: Named) -> bytes:
        """0 for the next one."""
        made = varint(0 if value == named.first else value + 1)
        named.note(value)
        return made

    def read(self, reader: ByteReader, named: Named) -> int:
        """0 for the next one."""
        code = reader.varint(named.count)
        index = named.first if code == 0 else code - 1
        if index >= named.count:
            raise ValueError(
                f"tensor {index} is named before byte {reader.position}; there are {named.count}"
            )
        named.note(index)
        return index


@dataclass(frozen=True)
class OptionalTensor(Field):
    """A tensor, or None."""

    def encode(self, value: Any, named: Named) -> bytes:
        """A byte that says whether there is one, and the tensor."""
        return b"\0" if value is None else b"\1" + TensorField().encode(value, named)

    def read(self, reader: ByteReader, named: Named) -> int | None:
        """A byte that says whether there is one, and the tensor."""
        given = read_byte(reader, 1, "a flag")
        return TensorField().read(reader, named) if given else None


@dataclass(frozen=True)
class FunctionField(Field):
    """A function of elements with its constants: (function, x, y)."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """Its number, and as many constants as it has."""
        function, *constants = value
        count = CONSTANTS.get(Function(function), 0)
        return bytes([function]) + b"".join(map(single, constants[:count]))

    def read(self, reader: ByteReader, named: Named) -> tuple[int, float, float]:  # noqa: ARG002
        """Its number, and as many constants as it has."""
        function = read_byte(reader, len(Function) - 1, "a function")
        count = CONSTANTS.get(Function(function), 0)
        x, y = (*(read_single(reader) for _ in range(count)), 0.0, 0.0)[:2]
        return function, x, y


@dataclass(frozen=True)
class PairsField(Field):
    """Two signed numbers for every dimension."""

    def encode(self, value: Any, named: Named) -> bytes:  # noqa: ARG002
        """How many dimensions, and the numbers."""
        return varint(len(value)) + b"".join(signed(one) for pair in value for one in pair)

    def read(self, reader: ByteReader, named: Named) -> tuple[tuple[int, int], ...]:  # noqa: ARG002
        """How many dimensions, and the numbers."""
        count = reader.varint(MOST_DIMS)
        pairs = [
            (read_signed(reader, MOST_SIZE), read_signed(reader, MOST_SIZE)) for _ in range(count)
        ]
        return tuple(pairs)


NEAREST, CORNERS, CENTERS, LISTED = 0, 1, 2, 3
"""Rules by which images are resized."""


@dataclass(frozen=True)
class Rule:
    """How one dimension is resized."""

    rule: int
    scale: float = 0.0
    """0 if the sizes decide."""
    tensors: tuple[int, ...] = ()
    """First and second source of every position, and the second's weight, if they are listed."""


@dataclass(frozen=True)
class RuleField(Field):
    """The rule of one dimension of a resize."""

    def encode(self, value: Any, named: Named) -> bytes:
        """Its number, then what it needs."""
        import struct

        made = bytes([value.rule])
        if value.rule in (NEAREST, CENTERS):
            made += struct.pack("<d", value.scale)
        return made + b"".join(TensorField().encode(one, named) for one in value.tensors)

    def read(self, reader: ByteReader, named: Named) -> Rule:
        """Its number, then what it needs."""
        rule = read_byte(reader, LISTED, "a rule")
        if rule == LISTED:
            tensors = tuple(TensorField().read(reader, named) for _ in range(3))
            return Rule(rule, tensors=tensors)
        return Rule(rule, read_double(reader) if rule != CORNERS else 0.0)
