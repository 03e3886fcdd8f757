"""Stores one tensor in the format that takes the fewest bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsegate_runtime.registry import Registry

from .bitmap import BitmapFormat
from .cost import Cost
from .dense import DenseFormat
from .format import Description, Elements, Format
from .gaps import GapsFormat
from .rows import RowsFormat
from .types import FLOATS, TYPES, Array, Shape, bits_type, num_bytes

FORMATS: Registry[Format] = Registry(
    "tensor format",
    {kind.name: kind for kind in (DenseFormat(), BitmapFormat(), GapsFormat(), RowsFormat())},
)
BITS_PER_PART = 8 * 96
"""About what a header spends on every part, and on describing a tensor that is not dense."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One tensor in one of the formats."""

    format: Format
    dtype: str
    """The element type, by its name in files such as "F32"."""
    description: Description
    parts: dict[str, Array]
    num_negative_zeros: int = 0
    """Number of elements that were -0.0 and are stored as 0.0."""

    @classmethod
    def cheapest(cls, elements: Elements, dtype: str, *, negative_zeros: bool = False) -> Entry:
        """Encodes a tensor in the format that takes the fewest bits.

        -0.0 becomes 0.0, unless `negative_zeros` is true: then -0.0 is a value like any other.
        """
        lost = 0 if negative_zeros else num_negative_zeros(elements.bits, dtype)
        if lost:
            smallest = np.iinfo(elements.bits.dtype).min  # only the sign bit is one
            bits = np.where(elements.bits == smallest, elements.bits.dtype.type(0), elements.bits)
            elements = Elements(bits, elements.shape)
        chosen = min(
            FORMATS.values(), key=lambda kind: kind.cost(elements).total + _header_bits(kind)
        )
        encoded = chosen.encode(elements)
        description = Description(elements.shape, elements.num_kept, encoded.settings)
        return cls(chosen, dtype, description, encoded.parts, lost)

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""
        return self.description.shape

    @property
    def total(self) -> int:
        """Number of elements."""
        return self.description.total

    @property
    def kept(self) -> int:
        """Number of elements that are not zero."""
        return int(np.count_nonzero(self.parts["values"]))

    @property
    def cost(self) -> Cost:
        """Bits of values and of indices."""
        indices = sum(part.nbytes for name, part in self.parts.items() if name != "values")
        return Cost(values=8 * self.parts["values"].nbytes, indices=8 * indices)

    @property
    def num_bytes(self) -> int:
        """Bytes of the dense tensor."""
        return num_bytes(self.dtype, self.shape)

    def array(self) -> Array:
        """The dense tensor. BF16 and F8, which numpy lacks, come as unsigned integers.

        Raises ValueError if the parts do not make a tensor.
        """
        self.check()
        bits = np.empty(self.total, bits_type(self.dtype))
        self.write_(bits)
        if self.dtype == "BOOL":
            return np.asarray(bits != 0).reshape(self.shape)
        return bits.view(f"<{TYPES[self.dtype]}").reshape(self.shape)

    def mask(self) -> Array:
        """Which elements are kept, in row-major order. The caller has called `check`."""
        if self.format.name == "dense":
            return np.asarray(self.parts["values"] != 0)
        mask = np.empty(self.total, np.int8)  # one byte an element, however wide the values are
        ones = np.ones(self.description.kept, np.int8)
        self.format.write_(self.description, {**self.parts, "values": ones}, mask)
        return mask.view(bool)

    def check(self) -> None:
        """Raises ValueError if the parts do not make a tensor; much cheaper than decoding it."""
        self.format.check(self.description, self.parts, str(bits_type(self.dtype)))

    def write_(self, bits: Array) -> None:
        """Writes all elements' bits to a flat array of `bits_type`, in place.

        The caller has called `check`.
        """
        self.format.write_(self.description, self.parts, bits)


def num_negative_zeros(bits: Array, dtype: str) -> int:
    """Number of elements that are -0.0, given the bits of all."""
    if dtype not in FLOATS:
        return 0
    return int(np.count_nonzero(bits == np.iinfo(bits.dtype).min))


def _header_bits(kind: Format) -> int:
    return BITS_PER_PART * (len(kind.parts) + (kind.name != "dense"))
