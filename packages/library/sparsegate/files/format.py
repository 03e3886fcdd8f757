"""CONTRACT Format: how the elements of one tensor, most of them zero, become arrays of bytes and back."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch

from sparsegate_runtime.kernels import KERNELS

from .cost import Cost

Array = np.ndarray[Any, np.dtype[Any]]
WINDOW = 2**19
"""Elements that are decoded at a time: few enough to stay in the processor's cache, a multiple of eight."""
ONES = np.array([number.bit_count() for number in range(256)], np.uint8)


@dataclass(frozen=True, eq=False)
class Elements:
    """A tensor as whole numbers, its elements' bits, in row-major order; zero means removed."""

    bits: Array
    shape: tuple[int, ...]

    @cached_property
    def positions(self) -> Array:
        """The numbers of the kept elements."""
        return np.flatnonzero(self.bits)

    @property
    def values(self) -> Array:
        """The kept elements."""
        values: Array = self.bits[self.positions]
        return values

    @property
    def num_kept(self) -> int:
        """How many elements are kept."""
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class Encoded:
    """A tensor in some format: its parts by name, and the settings that a reader needs."""

    parts: dict[str, Array]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What a reader knows of a tensor before it has read its parts."""

    shape: tuple[int, ...]
    kept: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many elements there are."""
        return prod(self.shape)


class Format(abc.ABC):
    """A way to store one tensor; has no state."""

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
    def check(self, plan: Plan, parts: dict[str, Array], dtype: str) -> None:
        """Raises ValueError if the parts do not fit the plan; much cheaper than decoding."""

    @abc.abstractmethod
    def write_(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Writes every element of `out`, whatever was in it; the parts have been checked."""

    def decode(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Writes every element of `out`, or raises ValueError and writes none, if the parts do not fit the plan."""
        self.check(plan, parts, str(out.dtype))
        self.write_(plan, parts, out)


def taken(parts: dict[str, Array], name: str, dtype: str, length: int | None = None) -> Array:
    """One part of a tensor, checked to have a type and a length; a part left out is empty."""
    part = parts.get(name, np.zeros(0, dtype))
    if part.dtype != np.dtype(dtype) or part.ndim != 1:
        raise ValueError(f"{name} is {part.dtype} of shape {part.shape}, wanted one row of {dtype}")
    if length is not None and len(part) != length:
        raise ValueError(f"{name} has {len(part)} entries, wanted {length}")
    return part


def taken_values(plan: Plan, parts: dict[str, Array], dtype: str) -> Array:
    """The kept elements, checked to be as many as planned and none of them zero."""
    values = taken(parts, "values", dtype, plan.kept)
    if _any_zero(values):
        raise ValueError("a kept value is zero")
    return values


def packed_bits(bits: Array) -> Array:
    """Bits as bytes, the first bit lowest."""
    return np.packbits(bits, bitorder="little")


def check_bits(packed: Array, count: int, name: str) -> None:
    """Checks that bytes hold `count` bits, and zeros after them."""
    if len(packed) != -(-count // 8):
        raise ValueError(
            f"{name} has {len(packed)} bytes, wanted {-(-count // 8)} for {count} bits"
        )
    if count % 8 and packed[-1] >> (count % 8):
        raise ValueError(f"{name} has ones after its end")


def num_ones(packed: Array) -> int:
    """How many bits are one."""
    if KERNELS is not None and packed.flags.c_contiguous:
        return int(
            KERNELS.sg_count_ones(packed.ctypes.data, packed.nbytes, torch.get_num_threads())
        )
    if hasattr(np, "bitwise_count"):  # numpy 2
        return int(np.bitwise_count(packed).sum(dtype=np.int64))
    return int(ONES[packed].sum(dtype=np.int64))


def _any_zero(values: Array) -> bool:
    if KERNELS is not None and values.flags.c_contiguous:
        counted = (values.ctypes.data, values.nbytes, values.itemsize, torch.get_num_threads())
        return bool(KERNELS.sg_any_zero(*counted))
    return not values.all()
