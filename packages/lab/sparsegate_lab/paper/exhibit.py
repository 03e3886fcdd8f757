"""CONTRACT Exhibit: one table or figure of the paper, from runs to verdicts."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from sparsegate_lab.study import Study
from sparsegate_lab.train import Run

from .findings import Findings

Studies = Mapping[str, Study]


class Exhibit(abc.ABC):
    """A table or figure of the paper: the runs that it needs, and what their records show.

    Each exhibit is a frozen dataclass in its own file. The registry `EXHIBITS` makes it a name for
    `sparsegate reproduce` and a section of docs/reproduction.md, and adds it to the tests.
    """

    @abc.abstractmethod
    def title(self) -> str:
        """One line: its place in the paper and what it shows."""

    def plan(self) -> dict[str, Run[Any]]:
        """The runs by name; each is trained with every seed. Empty for a drawing."""
        return {}

    def wanted(self) -> str:
        """A pattern for studies under results/ to read regardless of runs; empty by default."""
        return ""

    @abc.abstractmethod
    def findings(self, studies: Studies) -> Findings:
        """Returns the table, the comparisons with the paper, and the verdicts."""

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws into an empty matplotlib figure; returns False if there is nothing to draw."""
        return False

    def has_picture(self) -> bool:
        """Whether there is a picture once everything has been trained."""
        return type(self).draw is not Exhibit.draw
