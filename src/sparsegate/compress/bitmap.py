"""The format bitmap: one bit for every element says whether it is kept."""

from __future__ import annotations

from .cost import Cost
from .format import Array, Elements, Encoded, Format, Plan, packed_bits, taken, taken_values, unpacked_bits


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

    def decode(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Puts the values where the mask is one."""
        values = taken_values(plan, parts, out)
        mask = unpacked_bits(taken(parts, "mask", "uint8"), plan.total, "mask").view(bool)
        if (ones := int(mask.sum())) != plan.kept:
            raise ValueError(f"mask has {ones} ones, wanted {plan.kept}")
        out[mask] = values
