"""Tables 6 and 7 of the paper: AlexNet and VGG-16 by several methods."""

from __future__ import annotations

from dataclasses import dataclass

from ..contest import Entry
from ..exhibit import Exhibit, Studies
from ..findings import Findings, Row
from ..imagenet import NETWORKS, notes
from ..printed import PrintedTable
from ..verdict import Check, Tolerance

HEADS: Row = ("method", "parameters", "with indices", "top-1 accuracy", "rate", "whose")
OURS = "Proposed method"


@dataclass(frozen=True)
class ImagenetCompare(Exhibit):
    """The paper's rows, and below them every study of the network that the results hold."""

    network: str
    """alexnet or vgg16."""

    def title(self) -> str:
        """Where it stands and what it shows."""
        about = NETWORKS[self.network]
        return f"{about.compare.name}: {about.name} by several methods"

    def wanted(self) -> str:
        """Every study of the network."""
        return f"{self.network}-*.json"

    def findings(self, studies: Studies) -> Findings:
        """The rows, and the rate of learned gates beside the printed one."""
        table = NETWORKS[self.network].compare
        entries = [Entry(name, study) for name, study in studies.items()]
        gates = max((each for each in entries if each.is_gates), key=lambda each: each.validation, default=None)
        rows = (HEADS, *(_paper_row(table, row) for row in table.rows), *map(_row, entries))
        return Findings(
            self.title(), rows, _checks(table, gates), notes=notes(self.network, None if gates is None else gates.study)
        )


def _paper_row(table: PrintedTable, row: str) -> Row:
    return (row, *(text or "-" for text in table.rows[row]), "paper")


def _row(entry: Entry) -> Row:
    accuracy = f"{entry.test.mean:.2f} ± {entry.test.spread:.2f}"
    sizes = f"{entry.kept.mean:,.0f}", f"{entry.with_indices.mean:,.0f}"
    return (f"`{entry.recipe}`", *sizes, accuracy, f"{entry.rate.mean:.1f}x", "ours")


def _checks(table: PrintedTable, gates: Entry | None) -> tuple[Check, ...]:
    rate = table.number(OURS, "rate")
    assert rate is not None
    near = Tolerance(round(rate.value / 10, 2), "a tenth of the printed rate", "higher")
    return (Check(rate, None if gates is None else gates.rate, near, digits=1),)
