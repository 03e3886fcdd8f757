"""What one comparison of speeds reports, to and from JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparsegate_runtime.atomic import write_atomically

FORMAT = 1
BASELINE = "torch eager"
OURS = "sparsegate"


@dataclass(frozen=True)
class Timing:
    """How long every engine takes for one batch with so many threads.

    >>> timing = Timing(1, 1, {"torch eager": 6.0, "onnxruntime": 4.0, "deepsparse": 3.0, "sparsegate": 2.0})
    >>> timing.over_baseline(), timing.over_best_dense()
    (3.0, 2.0)
    """

    batch: int
    threads: int
    milliseconds: dict[str, float]
    """Medians; an engine that failed is missing."""
    differences: dict[str, float] = field(default_factory=dict)
    """How far each engine's outputs are from the first engine's, beside the largest of them."""
    skips_zeros: tuple[str, ...] = ("deepsparse", OURS)
    """Engines that gain from zeros; the others compute them."""

    @property
    def best_dense(self) -> str:
        """The fastest of the engines that compute the zeros."""
        dense = [name for name in self.milliseconds if name not in self.skips_zeros]
        return min(dense, key=lambda name: self.milliseconds[name])

    def over_baseline(self, engine: str = OURS) -> float:
        """How many times faster an engine is than torch without compilation."""
        return self.milliseconds[BASELINE] / self.milliseconds[engine]

    def over_best_dense(self, engine: str = OURS) -> float:
        """How many times faster an engine is than the best dense one."""
        return self.milliseconds[self.best_dense] / self.milliseconds[engine]


@dataclass(frozen=True)
class Speed:
    """A network timed by several engines, with what is needed to do it again."""

    network: str
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    timings: tuple[Timing, ...]
    layers: tuple[dict[str, Any], ...] = ()
    """What was measured of every layer, and by which kernel it runs, for every batch and number of threads."""
    notes: tuple[str, ...] = ()
    """What a reader should know: an engine that is not installed, or failed."""

    @property
    def engines(self) -> list[str]:
        """Every engine that was timed at least once, in the order of the columns."""
        return list(dict.fromkeys(name for timing in self.timings for name in timing.milliseconds))

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values, with the speed-ups beside the times."""
        value = {"format": FORMAT, **asdict(self)}
        for row, timing in zip(value["timings"], self.timings, strict=True):
            row["over_baseline"] = {
                name: round(timing.over_baseline(name), 3) for name in timing.milliseconds
            }
            row["best_dense"] = timing.best_dense
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Speed:
        """The record in a dictionary that `to_json` made."""
        if value.get("format") != FORMAT:
            raise ValueError(
                f"a comparison of speeds of format {FORMAT} was wanted, got {value.get('format')!r}"
            )
        fields = {name: each for name, each in value.items() if name in cls.__dataclass_fields__}
        names = Timing.__dataclass_fields__
        rows = [
            {name: each for name, each in row.items() if name in names} for row in value["timings"]
        ]
        fields["timings"] = tuple(
            Timing(**{**row, "skips_zeros": tuple(row["skips_zeros"])}) for row in rows
        )
        return cls(**{**fields, "layers": tuple(value["layers"]), "notes": tuple(value["notes"])})

    def save(self, path: Path) -> None:
        """Writes the record as a JSON file, whole or not at all."""
        write_atomically(path, json.dumps(self.to_json(), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Speed:
        """Reads a record from a JSON file."""
        return cls.from_json(json.loads(path.read_text()))
