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
    """A table or figure of the paper: what it trains, and what it makes of the records.

    An exhibit is a frozen dataclass in a file of its own. Joining `EXHIBITS` makes it a name of `sparsegate reproduce`,
    a part of docs/reproduction.md, and enrols it in the tests.
    """

    @abc.abstractmethod
    def title(self) -> str:
        """One line: where it stands in the paper and what it shows."""

    def plan(self) -> dict[str, Run[Any]]:
        """The runs by name, of which each is trained with every seed; none for a drawing."""
        return {}

    def wanted(self) -> str:
        """The files of studies under results/ that it reads whatever their runs are, as a pattern; none unless said."""
        return ""

    @abc.abstractmethod
    def findings(self, studies: Studies) -> Findings:
        """The table, the numbers beside the paper's and the verdicts, from the studies that there are."""

    def draw(self, figure: Any, studies: Studies) -> bool:
        """Draws the picture into an empty matplotlib figure; false where there is nothing to draw."""
        return False

    def has_picture(self) -> bool:
        """Whether there is a picture once everything has been trained."""
        return type(self).draw is not Exhibit.draw
