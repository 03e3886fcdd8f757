"""The format bitmap: one bit for every element, and the kept elements."""

from __future__ import annotations

import numpy as np

from .cost import Cost
from .format import (
    WINDOW,
    Description,
    Elements,
    Encoded,
    Format,
    check_bits,
    num_ones,
    packed_bits,
    part_of,
    values_of,
)
from .types import Array


class BitmapFormat(Format):
    """Stores a mask with one bit for every element, and the kept elements."""

    name = "bitmap"
    parts = ("values", "mask")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, and a byte of mask for every eight elements."""
        width = 8 * elements.bits.itemsize
        return Cost(values=width * elements.num_kept, indices=8 * -(-len(elements.bits) // 8))

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements and the mask."""
        return Encoded({"values": elements.values, "mask": packed_bits(elements.bits != 0)})

    def check(self, description: Description, parts: dict[str, Array], dtype: str) -> None:
        """Counts the ones of the mask."""
        values_of(description, parts, dtype)
        mask = part_of(parts, "mask", "uint8")
        check_bits(mask, description.total, "mask")
        if (ones := num_ones(mask)) != description.kept:
            raise ValueError(f"mask must have {description.kept} ones, got {ones}")

    def write_(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Writes the values where the mask is one, a window at a time."""
        values, done = part_of(parts, "values", str(out.dtype)), 0
        for begin in range(0, description.total, WINDOW):
            window = out[begin : begin + WINDOW]
            packed = parts["mask"][begin // 8 : -(-(begin + WINDOW) // 8)]
            mask = np.unpackbits(packed, count=len(window), bitorder="little").view(bool)
            kept = int(np.count_nonzero(mask))
            window[:] = 0
            window[mask] = values[done : done + kept]
            done += kept
