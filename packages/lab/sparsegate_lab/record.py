"""What one run measured, and how to repeat it, as a JSON file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate_runtime.atomic import write_atomically
from sparsegate_runtime.checksum import with_checksum, without_checksum
from sparsegate_runtime.schema import AnyFloat, SchemaError, load_json, parse, parse_fields

FORMAT = 1
CONTENT = "weights_content"
"""Name of a run's setting: the hash of the weights file that the run starts from."""
LATER: dict[str, Any] = {"sizes": (), "first_gates": (), "content": ""}
"""Fields that records of earlier versions do not have, with the value for "unknown"."""
REPORTED = ("model", "data")
OBJECTS, METHODS_OBJECTS = ("distil", "stop"), ("penalty", "target")
"""Settings of a run and of its method that are objects, if it has them."""
SIZE_EDGES: tuple[float, ...] = tuple(2.0 ** (index / 4) for index in range(-80, 13))
"""Edges between the bins of `Record.sizes`: quarters of an octave, from 2^-20 to 8."""


@dataclass(frozen=True)
class Layer:
    """One weight tensor of the finished network."""

    name: str
    shape: tuple[int, ...]
    total: int
    kept: int
    """Nonzero elements; for a layer that was replaced, the numbers that its replacement stores."""
    indices: int | None = None
    """Indices stored to locate the kept elements; None: one each, or none if all are kept."""

    def __post_init__(self) -> None:
        if self.total < 1 or self.kept < 0:
            raise ValueError(
                f"total is at least 1 and kept at least 0, got total={self.total}, kept={self.kept}"
            )

    @property
    def sparsity(self) -> float:
        """Percentage of elements that were removed."""
        return 100 * (1 - self.kept / self.total)

    @property
    def num_indices(self) -> int:
        """Indices stored to locate the kept elements."""
        if self.indices is not None:
            return self.indices
        return self.kept if self.kept < self.total else 0


@dataclass(frozen=True)
class Epoch:
    """Measurements at the end of one epoch."""

    epoch: int
    loss: AnyFloat
    """Mean training loss, without the penalty; not a number where training has diverged."""
    validation: float
    """Validation accuracy in percent."""
    kept: int
    """Weights that would remain if training ended here."""
    undecided: float = 0.0
    """Fraction of gates between 0.1 and 0.9."""
    flipped: float = 0.0
    """Fraction of gates that opened or closed during this epoch."""
    keep: float = 1.0
    """Fraction of weights that a drawn mask is expected to keep."""
    variance: float = 0.0
    """Variance of one element of a drawn mask, averaged over the gates."""
    gates: tuple[int, ...] = ()
    """Histogram of the gates: 32 equal bins of [0, 1]; empty if the model has no gates."""
    layers: dict[str, int] = dataclasses.field(default_factory=dict)
    """Weights of every gated layer that would remain; empty if the model has no gates."""

    @classmethod
    def from_json(cls, value: Any, field: str = "") -> Epoch:
        """The epoch in a dictionary of plain values.

        Args:
            value: the dictionary.
            field: the name of the epoch for errors.
        """
        epoch: Epoch = parse_fields(cls, value, field)
        return epoch


@dataclass(frozen=True)
class Record:
    """The result of one run, and what is needed to repeat it."""

    name: str
    run: dict[str, Any]
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    layers: tuple[Layer, ...]
    num_biases: int
    """Parameters that are not weights, such as biases and normalization."""
    biases_kept: int
    """How many of them are not zero."""
    validation: float
    """Validation accuracy of the finished network, in percent."""
    test: float
    """Test accuracy of the finished network, in percent."""
    epochs: tuple[Epoch, ...]
    seconds: float
    """Training time, without the pauses before a run was resumed."""
    notes: tuple[str, ...] = ()
    """Remarks, such as a layer whose gates have all closed."""
    sizes: tuple[int, ...] = ()
    """Histogram of the sizes of the kept weights, with edges SIZE_EDGES; empty if unknown."""
    first_gates: tuple[int, ...] = ()
    """Histogram of the gates before the first step, as in `Epoch.gates`."""
    content: str = ""
    """Hash of the finished network's file; empty if unknown."""

    @property
    def total(self) -> int:
        """Weights of the dense network."""
        return sum(layer.total for layer in self.layers)

    @property
    def kept(self) -> int:
        """Weights of the sparse network."""
        return sum(layer.kept for layer in self.layers)

    @property
    def rate(self) -> float:
        """How many times fewer weights the network has than the dense one."""
        return self.total / max(1, self.kept)

    @property
    def rate_with_biases(self) -> float:
        """How many times fewer parameters it has, with biases and normalization."""
        return (self.total + self.num_biases) / max(1, self.kept + self.biases_kept)

    @property
    def num_with_indices(self) -> int:
        """The paper's second count: all kept weights and their indices."""
        return self.kept + sum(layer.num_indices for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values: the fields, and the counts derived from them."""
        derived = {
            "total": self.total,
            "kept": self.kept,
            "rate": round(self.rate, 2),
            "rate_with_biases": round(self.rate_with_biases, 2),
            "num_with_indices": self.num_with_indices,
        }
        fields = dataclasses.asdict(self)
        fields["layers"] = tuple(_without(None, layer) for layer in fields["layers"])
        fields["epochs"] = tuple(_without((), _without({}, epoch)) for epoch in fields["epochs"])
        known = {name: each for name, each in fields.items() if each != LATER.get(name, object)}
        return {"format": FORMAT, **known, "derived": derived}

    @classmethod
    def from_json(cls, value: Any, field: str = "") -> Record:
        """The record in a dictionary that `to_json` made.

        Args:
            value: the dictionary.
            field: the name of the record for errors.
        """
        value = without_checksum(value)
        version = value.get("format") if isinstance(value, dict) else None
        if version != FORMAT:
            at = f"{field}.format" if field else "format"
            raise SchemaError(f"{at}: expected a record of format {FORMAT}, got {version!r}")
        _check_settings(value.get("run"), f"{field}.run" if field else "run")
        fields = {name: each for name, each in value.items() if name not in ("format", "derived")}
        record: Record = parse_fields(cls, fields, field)
        return record

    def save(self, path: Path) -> None:
        """Writes the record and its checksum as a JSON file, completely or not at all."""
        write_atomically(path, json.dumps(with_checksum(self.to_json()), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        """Reads a record from a JSON file; raises if it does not match its checksum."""
        return load_json(path, cls.from_json)


def _check_settings(run: Any, field: str) -> None:
    """Raises unless the settings that a report reads have the types that it expects.

    All others depend on the method and on the version that wrote the record.
    """
    if not isinstance(run, dict):
        return  # refused with the other fields
    for name in REPORTED:
        parse(str, run.get(name), f"{field}.{name}")
    method = parse(dict[str, Any], run.get("method"), f"{field}.method")
    parse(str, method.get("name"), f"{field}.method.name")
    for holder, inside, names in (
        (run, field, OBJECTS),
        (method, f"{field}.method", METHODS_OBJECTS),
    ):
        for name in names:
            parse(dict[str, Any] | None, holder.get(name), f"{inside}.{name}")


def _without(unknown: object, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are known."""
    return {name: value for name, value in fields.items() if value != unknown}
