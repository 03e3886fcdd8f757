"""The goal of a run that holds a price: none but to go as another run went."""

from __future__ import annotations

from .goal import Goal, View


class Held(Goal):
    """Whatever the price leaves."""

    def budget(self, progress: float) -> float:
        """Nothing is wanted; the price is not moved."""
        raise AssertionError("a price that is held follows no budget")

    def final(self, view: View) -> int:
        """As many as are open."""
        return max(view.num_open(), view.num_layers())
