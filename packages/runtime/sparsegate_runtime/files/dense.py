"""The format dense: every element, without indices."""

from __future__ import annotations

from .cost import Cost
from .format import Description, Elements, Encoded, Format, part_of
from .types import Array


class DenseFormat(Format):
    """Stores all elements of a tensor, zeros included."""

    name = "dense"
    parts = ("values",)

    def cost(self, elements: Elements) -> Cost:
        """The bits of all elements."""
        return Cost(values=8 * elements.bits.nbytes)

    def encode(self, elements: Elements) -> Encoded:
        """A copy of the elements: the model may change later."""
        return Encoded({"values": elements.bits.copy()})

    def check(self, description: Description, parts: dict[str, Array], dtype: str) -> None:
        """Checks the number of elements."""
        part_of(parts, "values", dtype, description.total)

    def write_(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Copies the elements."""
        out[:] = part_of(parts, "values", str(out.dtype), description.total)
