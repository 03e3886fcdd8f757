"""Saves the records of several runs together, with summaries over them."""

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
from sparsegate_runtime.schema import SchemaError, load_json

SUMMARIZED = (
    "test",
    "validation",
    "kept",
    "rate",
    "rate_with_biases",
    "num_with_indices",
    "seconds",
)


@dataclass(frozen=True)
class Summary:
    """One number over several runs."""

    mean: float
    spread: float
    """Standard deviation between runs; 0 for one run."""
    low: float
    high: float

    @classmethod
    def of(cls, numbers: Sequence[float | int]) -> Summary:
        """The summary of one or more numbers.

        >>> Summary.of([1.0, 3.0])
        Summary(mean=2.0, spread=1.4142, low=1.0, high=3.0)
        """
        spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
        return cls(
            mean=round(float(statistics.mean(numbers)), 4),
            spread=round(float(spread), 4),
            low=round(float(min(numbers)), 4),
            high=round(float(max(numbers)), 4),
        )


@dataclass(frozen=True)
class Study:
    """The records of runs that differ in their seed, their price, or both."""

    title: str
    command: str
    records: tuple[Record, ...]

    def summary(self, of: Callable[[Record], float | int]) -> Summary:
        """Summarizes one number of every record."""
        return Summary.of([of(record) for record in self.records])

    def frontier(self) -> list[Record]:
        """The records that no other beats in both weights and validation accuracy.

        The record with the fewest weights comes first.
        """
        # By validation accuracy: choosing by the test set would look at it many times.
        runs = [(record.kept, record.validation) for record in self.records]
        return [self.records[index] for index in unbeaten(runs)]

    def to_json(self) -> dict[str, Any]:
        """Title, command, summaries, then every complete record."""
        return {
            "title": self.title,
            "command": self.command,
            "summary": {name: vars(self.summary(attrgetter(name))) for name in SUMMARIZED},
            "records": [record.to_json() for record in self.records],
        }

    def save(self, path: Path) -> None:
        """Writes the study as a JSON file, completely or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def from_json(cls, value: Any) -> Study:
        """The study in a dictionary that `to_json` made."""
        if not isinstance(value, dict) or not isinstance(value.get("records"), list):
            raise SchemaError("records: expected a list of records")
        records = tuple(
            Record.from_json(each, f"records[{index}]")
            for index, each in enumerate(value["records"])
        )
        return cls(str(value.get("title", "")), str(value.get("command", "")), records)

    @classmethod
    def load(cls, path: Path) -> Study:
        """Reads a study from a JSON file."""
        return load_json(path, cls.from_json)


def unbeaten(runs: Sequence[tuple[int, float]]) -> list[int]:
    """The indices of the runs that no other beats in both weights and accuracy.

    >>> unbeaten([(50, 98.0), (10, 97.0), (60, 97.5)])
    [1, 0]

    Args:
        runs: the number of weights and the accuracy of each run.

    Returns:
        The run with the fewest weights first.
    """
    found: list[int] = []
    for index in sorted(range(len(runs)), key=lambda index: (runs[index][0], -runs[index][1])):
        if not found or runs[index][1] > runs[found[-1]][1]:
            found.append(index)
    return found
