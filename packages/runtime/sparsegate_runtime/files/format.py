"""CONTRACT Format: stores one tensor, most of whose elements are zero, as arrays of bytes."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from sparsegate_runtime import threads
from sparsegate_runtime.kernels import KERNELS

from .cost import Cost
from .types import Array, Shape

WINDOW = 2**19
"""Elements decoded at a time: a multiple of eight, few enough to stay in the processor's cache."""
NUM_ONES_OF_BYTE = np.array([number.bit_count() for number in range(256)], np.uint8)


@dataclass(frozen=True, eq=False)
class Elements:
    """A tensor as integers that hold its elements' bits, in row-major order. Zero means removed."""

    bits: Array
    shape: Shape

    @cached_property
    def positions(self) -> Array:
        """The indices of the kept elements."""
        return np.flatnonzero(self.bits)

    @property
    def values(self) -> Array:
        """The kept elements."""
        values: Array = self.bits[self.positions]
        return values

    @property
    def num_kept(self) -> int:
        """Number of kept elements."""
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The result of `Format.encode`: named arrays, and the settings that decode them."""

    parts: dict[str, Array]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What a file's header says about a tensor."""

    shape: Shape
    kept: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of elements."""
        return prod(self.shape)


class Format(abc.ABC):
    """A way to store one tensor. Formats have no state."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The format's name in files."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The names of the arrays that `encode` makes."""

    @abc.abstractmethod
    def cost(self, elements: Elements) -> Cost:
        """The bits of all parts that `encode` would make."""

    @abc.abstractmethod
    def encode(self, elements: Elements) -> Encoded:
        """The tensor's parts."""

    @abc.abstractmethod
    def check(self, description: Description, parts: dict[str, Array], dtype: str) -> None:
        """Raises ValueError if the parts do not fit the description; much cheaper than decoding."""

    @abc.abstractmethod
    def write_(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Writes every element of `out`, in place. The caller has called `check`."""

    def decode(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Checks the parts, then writes every element of `out`, in place.

        Raises ValueError if the parts do not fit the description, and writes nothing in that case.
        """
        self.check(description, parts, str(out.dtype))
        self.write_(description, parts, out)


def part_of(parts: dict[str, Array], name: str, dtype: str, length: int | None = None) -> Array:
    """One part, checked to have this type and length. A part that was left out is empty."""
    part = parts.get(name, np.zeros(0, dtype))
    if part.dtype != np.dtype(dtype) or part.ndim != 1:
        raise ValueError(
            f"{name} must be a one-dimensional array of {dtype}, "
            f"got {part.dtype} of shape {part.shape}"
        )
    if length is not None and len(part) != length:
        raise ValueError(f"{name} must have {length} entries, got {len(part)}")
    return part


def values_of(description: Description, parts: dict[str, Array], dtype: str) -> Array:
    """The part `values`, checked to have one non-zero value for every kept element."""
    values = part_of(parts, "values", dtype, description.kept)
    if _any_zero(values):
        raise ValueError("values must not contain zero, which means a removed element")
    return values


def packed_bits(bits: Array) -> Array:
    """Bits as bytes, the first bit lowest."""
    return np.packbits(bits, bitorder="little")


def check_bits(packed: Array, count: int, name: str) -> None:
    """Raises ValueError unless the bytes hold `count` bits, with zeros after them."""
    if len(packed) != -(-count // 8):
        raise ValueError(
            f"{name} must have {-(-count // 8)} bytes for {count} bits, got {len(packed)}"
        )
    if count % 8 and packed[-1] >> (count % 8):
        raise ValueError(f"{name} must have zeros after its {count} bits")


def num_ones(packed: Array) -> int:
    """Number of bits that are one."""
    if KERNELS is not None and packed.flags.c_contiguous:
        return int(KERNELS.sg_count_ones(packed.ctypes.data, packed.nbytes, threads.count()))
    if hasattr(np, "bitwise_count"):  # numpy 2
        return int(np.bitwise_count(packed).sum(dtype=np.int64))
    return int(NUM_ONES_OF_BYTE[packed].sum(dtype=np.int64))


def _any_zero(values: Array) -> bool:
    if KERNELS is not None and values.flags.c_contiguous:
        data = values.ctypes.data
        return bool(KERNELS.sg_any_zero(data, values.nbytes, values.itemsize, threads.count()))
    return not values.all()
