"""The format dense: every element, no indices."""

from __future__ import annotations

from .cost import Cost
from .format import Array, Elements, Encoded, Format, Plan, taken


class Dense(Format):
    """Stores a tensor as it is."""

    name = "dense"
    parts = ("values",)

    def cost(self, elements: Elements) -> Cost:
        """All elements."""
        return Cost(values=8 * elements.bits.nbytes)

    def encode(self, elements: Elements) -> Encoded:
        """One part, the elements."""
        return Encoded({"values": elements.bits.copy()})  # the model may go on changing

    def check(self, plan: Plan, parts: dict[str, Array], dtype: str) -> None:
        """Counts the elements."""
        taken(parts, "values", dtype, plan.total)

    def write_(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Copies."""
        out[:] = taken(parts, "values", str(out.dtype), plan.total)
