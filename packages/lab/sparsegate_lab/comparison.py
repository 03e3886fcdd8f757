"""Saves the records of several methods at several rates, with the best method at each rate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate_lab.record import Record
from sparsegate_lab.study import Summary
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.schema import SchemaError, load_json

DENSE = "dense"
"""Name of the control, which keeps all weights."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    method: str
    """Name of the method and its settings, such as gradual_magnitude-lamp; dense: the control."""
    keep: float
    """Fraction of weights that was asked for."""
    record: Record


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods at several rates, with one or more seeds each."""

    title: str
    command: str
    entries: tuple[ComparedRun, ...]
    failed: tuple[str, ...] = ()
    """Runs without a record, and why."""

    @property
    def methods(self) -> list[str]:
        """The methods without the control, in the order of their first runs."""
        return [each for each in dict.fromkeys(e.method for e in self.entries) if each != DENSE]

    @property
    def keeps(self) -> list[float]:
        """The fractions of weights without the control's, largest first."""
        return sorted({each.keep for each in self.entries if each.method != DENSE}, reverse=True)

    def records(self, method: str | None = None, keep: float | None = None) -> tuple[Record, ...]:
        """All records, or those of a method, or those at a rate."""
        return tuple(
            each.record
            for each in self.entries
            if method in (None, each.method) and keep in (None, each.keep)
        )

    def summary(
        self, method: str, keep: float | None, of: Callable[[Record], float | int]
    ) -> Summary | None:
        """Summarizes one number over the seeds of a cell; None if there is no run."""
        records = self.records(method, keep)
        return Summary.of([of(record) for record in records]) if records else None

    def best(self, keep: float, *, without: str = "") -> str:
        """The method with the highest mean validation accuracy at a rate; empty if there is none.

        Choosing by the test set would favor the method that was lucky with it.

        Args:
            keep: the rate.
            without: a method that is left out.
        """
        found = {
            method: summary.mean
            for method in self.methods
            if method != without
            and (summary := self.summary(method, keep, lambda record: record.validation))
        }
        return max(found, key=lambda method: found[method], default="")

    def to_json(self) -> dict[str, Any]:
        """Title, command, and every complete record with its method and rate."""
        return {
            "title": self.title,
            "command": self.command,
            "failed": list(self.failed),
            "entries": [
                {"method": each.method, "keep": each.keep, "record": each.record.to_json()}
                for each in self.entries
            ],
        }

    def save(self, path: Path) -> None:
        """Writes the comparison as a JSON file, completely or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def from_json(cls, value: Any) -> Comparison:
        """The comparison in a dictionary that `to_json` made."""
        if not isinstance(value, dict) or not isinstance(value.get("entries"), list):
            raise SchemaError("entries: expected a list of a comparison's runs")
        entries = tuple(
            _entry(each, f"entries[{index}]") for index, each in enumerate(value["entries"])
        )
        failed = tuple(map(str, value.get("failed", ())))
        return cls(str(value.get("title", "")), str(value.get("command", "")), entries, failed)

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """Reads a comparison from a JSON file."""
        return load_json(path, cls.from_json)


def _entry(value: Any, field: str) -> ComparedRun:
    if not isinstance(value, dict):
        raise SchemaError(f"{field}: expected an object with method, keep and record")
    record = Record.from_json(value.get("record"), f"{field}.record")
    method, keep = value.get("method"), value.get("keep")
    if not isinstance(method, str) or not isinstance(keep, int | float):
        raise SchemaError(f"{field}: expected a method's name and a keep, got {method!r}, {keep!r}")
    return ComparedRun(method, float(keep), record)
