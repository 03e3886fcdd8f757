"""Several runs that differ in their seed, and what they come to."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from sparsegate_lab.record import Record
from sparsegate_runtime.atomic import write_atomically


@dataclass(frozen=True)
class Summary:
    """A number over several runs."""

    mean: float
    spread: float
    """Standard deviation between runs; 0 for one run."""
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float | int]) -> Summary:
        """The summary of at least one number.

        >>> Summary.of([1.0, 3.0])
        Summary(mean=2.0, spread=1.4142, low=1.0, high=3.0)
        """
        spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
        rounded = [
            round(float(number), 4)
            for number in (statistics.mean(numbers), spread, min(numbers), max(numbers))
        ]
        return cls(*rounded)


@dataclass(frozen=True)
class Study:
    """The records of one recipe over several seeds."""

    title: str
    command: str
    records: tuple[Record, ...]

    def summary(self, of: Callable[[Record], float | int]) -> Summary:
        """A number of every record, summarised."""
        return Summary.of([of(record) for record in self.records])

    def to_json(self) -> dict[str, Any]:
        """Title, command, summaries, then every record whole."""
        counts = (
            "test",
            "validation",
            "kept",
            "rate",
            "rate_with_biases",
            "num_with_indices",
            "seconds",
        )
        summaries = {name: vars(self.summary(attrgetter(name))) for name in counts}  # type: ignore[misc]
        records = [record.to_json() for record in self.records]
        return {
            "title": self.title,
            "command": self.command,
            "summary": summaries,
            "records": records,
        }

    def save(self, path: Path) -> None:
        """Writes the study as a JSON file, whole or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Study:
        """Reads a study from a JSON file."""
        value = json.loads(path.read_text())
        return cls(
            value["title"],
            value["command"],
            tuple(Record.from_json(each) for each in value["records"]),
        )
