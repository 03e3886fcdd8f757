"""Many runs that differ in their price, and which of them no other beats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate_lab.record import Record
from sparsegate_runtime.atomic import write_atomically


@dataclass(frozen=True)
class Frontier:
    """The records of many members that were trained together: accuracy over the number of weights."""

    title: str
    command: str
    records: tuple[Record, ...]

    def best(self) -> list[Record]:
        """The records that no other beats in both weights and validation accuracy, fewest weights first."""
        # By the validation split: to choose by the test set would be to look at it many times.
        return [
            self.records[place]
            for place in unbeaten([(each.kept, each.validation) for each in self.records])
        ]

    def to_json(self) -> dict[str, Any]:
        """Title, command, the names of the best, then every record whole."""
        records = [record.to_json() for record in self.records]
        best = [record.name for record in self.best()]
        return {"title": self.title, "command": self.command, "best": best, "records": records}

    def save(self, path: Path) -> None:
        """Writes the frontier as a JSON file, whole or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Frontier:
        """Reads a frontier from a JSON file."""
        value = json.loads(path.read_text())
        return cls(
            value["title"],
            value["command"],
            tuple(Record.from_json(each) for each in value["records"]),
        )


def unbeaten(runs: Sequence[tuple[int, float]]) -> list[int]:
    """The places of those runs, each its weights and its accuracy, that no other beats in both; fewest weights first.

    >>> unbeaten([(50, 98.0), (10, 97.0), (60, 97.5)])
    [1, 0]
    """
    found: list[int] = []
    for place in sorted(range(len(runs)), key=lambda place: (runs[place][0], -runs[place][1])):
        if not found or runs[place][1] > runs[found[-1]][1]:
            found.append(place)
    return found
