"""Many runs that differ in their price, and which of them no other beats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate.atomic import write_atomically
from sparsegate.record import Record


@dataclass(frozen=True)
class Frontier:
    """The records of many members that were trained together: accuracy over the number of weights."""

    title: str
    command: str
    records: tuple[Record, ...]

    def best(self) -> list[Record]:
        """The records that no other beats in both weights and validation accuracy, fewest weights first."""
        # By the validation split: to choose by the test set would be to look at it many times.
        found: list[Record] = []
        for record in sorted(self.records, key=lambda each: (each.kept, -each.validation)):
            if not found or record.validation > found[-1].validation:
                found.append(record)
        return found

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
        return cls(value["title"], value["command"], tuple(Record.from_json(each) for each in value["records"]))
