"""The format gaps: Rice-coded distances between kept elements, or between removed ones."""

from __future__ import annotations

import numpy as np

from .cost import Cost
from .format import Array, Elements, Encoded, Format, Plan, packed_bits, taken, taken_values, unpacked_bits

MAX_RICE = 31


class Gaps(Format):
    """Stores the kept elements and the gaps between the marked ones, those of which there are fewer."""

    name = "gaps"
    parts = ("values", "quotients", "remainders")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, and the gaps at the best Rice parameter."""
        gap = _gaps(_marked(elements, _fewer(elements)))
        return Cost(values=8 * elements.bits.itemsize * elements.num_kept, indices=_bits(gap, _best_rice(gap)))

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements, the gaps' quotients in unary, and their remainders in bit planes."""
        of = _fewer(elements)
        gap = _gaps(_marked(elements, of))
        rice = _best_rice(gap)
        ones = np.cumsum((gap >> rice) + 1) - 1
        unary = np.zeros(ones[-1] + 1 if len(ones) else 0, bool)
        unary[ones] = True
        planes = [packed_bits((gap >> bit) & 1 != 0) for bit in range(rice)]
        remainders = np.concatenate(planes) if planes else np.zeros(0, np.uint8)
        parts = {"values": elements.values, "quotients": packed_bits(unary), "remainders": remainders}
        return Encoded(parts, {"of": of, "rice": rice})

    def decode(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Adds the gaps up to positions and puts the values there, or everywhere else."""
        of, rice = plan.settings.get("of"), plan.settings.get("rice")
        if of not in ("kept", "removed") or type(rice) is not int or not 0 <= rice <= MAX_RICE:
            raise ValueError(f"of is kept or removed and rice from 0 to {MAX_RICE}, got {of!r} and {rice!r}")
        values = taken_values(plan, parts, out)
        marked = _positions(parts, plan.kept if of == "kept" else plan.total - plan.kept, rice, plan.total)
        if of == "kept":
            out[marked] = values
        else:
            mask = np.ones(plan.total, bool)
            mask[marked] = False
            out[mask] = values


def _fewer(elements: Elements) -> str:
    return "kept" if 2 * elements.num_kept <= len(elements.bits) else "removed"


def _marked(elements: Elements, of: str) -> Array:
    return elements.positions if of == "kept" else np.flatnonzero(elements.bits == 0)


def _gaps(positions: Array) -> Array:
    return np.diff(positions, prepend=-1) - 1


def _bits(gap: Array, rice: int) -> int:
    unary = int((gap >> rice).sum()) + len(gap)
    return 8 * (-(-unary // 8) + rice * -(-len(gap) // 8))


def _best_rice(gap: Array) -> int:
    if len(gap) == 0:
        return 0
    near = int(np.log2(gap.mean() + 1))  # the best is within one of it, unless the gaps are far from geometric
    return min(range(max(0, near - 2), min(MAX_RICE, near + 2) + 1), key=lambda rice: _bits(gap, rice))


def _positions(parts: dict[str, Array], count: int, rice: int, total: int) -> Array:
    quotients = taken(parts, "quotients", "uint8")
    if 8 * len(quotients) > (total >> rice) + count + 7:
        raise ValueError(f"quotients have {len(quotients)} bytes, more than {count} gaps in {total} elements can need")
    ones = np.flatnonzero(np.unpackbits(quotients, bitorder="little"))
    if len(ones) != count or (count and ones[-1] >> 3 != len(quotients) - 1) or (count == 0 and len(quotients)):
        raise ValueError(f"quotients have {len(ones)} ones in {len(quotients)} bytes, wanted {count}, one in the last")
    gap = (np.diff(ones, prepend=-1) - 1) << rice
    planes = taken(parts, "remainders", "uint8", rice * -(-count // 8)).reshape(rice, -(-count // 8))
    for bit, plane in enumerate(planes):
        gap |= unpacked_bits(plane, count, "remainders").astype(gap.dtype) << bit
    positions = np.cumsum(gap + 1) - 1
    if count and positions[-1] >= total:
        raise ValueError(f"gaps lead to element {positions[-1]} of {total}")
    return positions
