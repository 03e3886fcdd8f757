"""The results of a sweep: its trials, as a JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparsegate_lab.study import unbeaten
from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.schema import SchemaError, load_json, parse_fields

FORMAT = 1
STATES = ("ended", "stopped", "failed", "running")


@dataclass(frozen=True)
class Outcome:
    """One trial: its settings and its result."""

    number: int
    """The number of the trial, from 0."""
    state: Literal["ended", "stopped", "failed", "running"]
    """stopped: ended early, because it was behind; failed: see `why`."""
    settings: dict[str, Any]
    """The varied settings."""
    run: str = ""
    """The name of the run's folder."""
    validation: float | None = None
    """Validation accuracy in percent; of a trial that was stopped, after its last epoch."""
    test: float | None = None
    """Test accuracy in percent."""
    kept: int | None = None
    """Weights that are left."""
    total: int | None = None
    """Weights of the dense network."""
    bytes: int | None = None
    """Size of the network's .sg file."""
    seconds: float | None = None
    """Training time."""
    why: str = ""
    """Why the trial was stopped or failed."""
    machine: dict[str, Any] = field(default_factory=dict)
    """The machine that trained it."""


@dataclass(frozen=True)
class SweepResult:
    """All trials of a sweep, and what is needed to repeat it."""

    name: str
    command: str
    objectives: tuple[str, ...]
    run: dict[str, Any]
    """The settings that all trials share."""
    versions: dict[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def ended(self) -> list[Outcome]:
        """The trials with a finished network."""
        return [each for each in self.outcomes if each.state == "ended"]

    def best(self) -> list[Outcome]:
        """The trials that no other beats in all objectives; the smallest file comes first.

        Two trials with the same result count once. Accuracy is that of validation: choosing by
        the test set would look at it many times.
        """
        ended = self.ended
        sizes = [_size(each, self.objectives) for each in ended]
        accurate = "validation" in self.objectives
        scores = [each.validation or 0.0 if accurate else 0.0 for each in ended]
        return [ended[index] for index in unbeaten(list(zip(sizes, scores, strict=True)))]

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Writes the result as a JSON file, completely or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())

    @classmethod
    def from_json(cls, value: Any) -> SweepResult:
        """The result in a dictionary that `to_json` made."""
        version = value.get("format") if isinstance(value, dict) else None
        if version != FORMAT:
            raise SchemaError(f"format: expected a sweep of format {FORMAT}, got {version!r}")
        fields = {name: each for name, each in value.items() if name != "format"}
        result: SweepResult = parse_fields(cls, fields)
        return result

    @classmethod
    def load(cls, path: Path) -> SweepResult:
        """Reads a result from a JSON file."""
        return load_json(path, cls.from_json)


def _size(outcome: Outcome, objectives: tuple[str, ...]) -> int:
    """The size that is to be small; 0 if only accuracy counts."""
    sizes = {"bytes": outcome.bytes, "weights": outcome.kept}
    return next((sizes[name] or 0 for name in objectives if name in sizes), 0)
