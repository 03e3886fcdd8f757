"""The format bitmap: one bit for every element says whether it is kept."""

from __future__ import annotations

import numpy as np

from .cost import Cost
from .format import (
    WINDOW,
    Array,
    Elements,
    Encoded,
    Format,
    Plan,
    check_bits,
    num_ones,
    packed_bits,
    taken,
    taken_values,
)


class Bitmap(Format):
    """Stores a mask and the kept elements."""

    name = "bitmap"
    parts = ("values", "mask")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, and a byte for every eight elements."""
        width = 8 * elements.bits.itemsize
        return Cost(values=width * elements.num_kept, indices=8 * -(-len(elements.bits) // 8))

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements and the mask."""
        return Encoded({"values": elements.values, "mask": packed_bits(elements.bits != 0)})

    def check(self, plan: Plan, parts: dict[str, Array], dtype: str) -> None:
        """Counts the mask's ones."""
        taken_values(plan, parts, dtype)
        mask = taken(parts, "mask", "uint8")
        check_bits(mask, plan.total, "mask")
        if (ones := num_ones(mask)) != plan.kept:
            raise ValueError(f"mask has {ones} ones, wanted {plan.kept}")

    def write_(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Puts the values where the mask is one, a window at a time, so that it stays in the processor's cache."""
        values, done = taken(parts, "values", str(out.dtype)), 0
        for begin in range(0, plan.total, WINDOW):
            window = out[begin : begin + WINDOW]
            packed = parts["mask"][begin // 8 : -(-(begin + WINDOW) // 8)]
            mask = np.unpackbits(packed, count=len(window), bitorder="little").view(bool)
            here = int(np.count_nonzero(mask))
            window[:] = 0
            window[mask] = values[done : done + here]
            done += here
