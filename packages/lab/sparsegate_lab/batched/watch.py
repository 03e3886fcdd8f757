"""CONTRACT ManyWatcher: who wants to see many members while they are trained."""

from __future__ import annotations

from collections.abc import Sequence

from sparsegate_lab.record import Epoch

from .member import Member


class ManyWatcher:
    """Sees the moments of training; every one may be ignored, as this watcher does."""

    def began(self, members: Sequence[Member], step: int, steps: int) -> None:
        """Training begins, or goes on, at a step out of so many."""

    def stepped(self, step: int) -> None:
        """So many steps are done, or at least on their way to the device."""

    def measured(self, epochs: Sequence[Epoch]) -> None:
        """An epoch has ended; one entry for every member."""

    def closed(self) -> None:
        """Nothing more will come."""
