"""What one run reports, to and from JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegate_runtime.atomic import write_atomically

FORMAT = 1
CONTENT = "weights_content"
"""Among a run's settings: the hash of the file that it began with."""
LATER: dict[str, Any] = {
    "sizes": (),
    "first_gates": (),
    "content": "",
}  # records from before have none
SIZE_EDGES: tuple[float, ...] = tuple(2.0 ** (place / 4) for place in range(-80, 13))
"""Borders between the bins of `Record.sizes`: quarters of an octave, from 2^-20 to 8."""


@dataclass(frozen=True)
class Layer:
    """One weight of the finished network."""

    name: str
    shape: tuple[int, ...]
    total: int
    kept: int
    """Elements that are not zero; of a layer with another in its place, the numbers that this one stores."""
    indices: int | None = None
    """Numbers stored to say where the kept ones belong; None: one for each, or none at all if all are kept."""

    @property
    def sparsity(self) -> float:
        """Percentage of elements that are not kept."""
        return 100 * (1 - self.kept / self.total)

    @property
    def num_indices(self) -> int:
        """Numbers stored to say where the kept ones belong."""
        if self.indices is not None:
            return self.indices
        return self.kept if self.kept < self.total else 0


@dataclass(frozen=True)
class Epoch:
    """What was seen at the end of one epoch."""

    epoch: int
    loss: float
    """Mean training loss, without the price."""
    validation: float
    """Validation accuracy in per cent."""
    kept: int
    """Weights that would be left if training ended now."""
    undecided: float = 0.0
    """Fraction of gates between 0.1 and 0.9."""
    flipped: float = 0.0
    """Fraction of gates that opened or closed in this epoch."""
    keep: float = 1.0
    """Fraction of weights that a drawn mask is expected to keep."""
    variance: float = 0.0
    """Variance of one element of a drawn mask, averaged over the gates."""
    gates: tuple[int, ...] = ()
    """How many gates lie in each of 32 equal parts of [0, 1], from closed to open; empty if there are none."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Epoch:
        """The epoch in a dictionary of plain values."""
        return cls(**{**value, "gates": tuple(value.get("gates", ()))})


@dataclass(frozen=True)
class Record:
    """The result of one run, with what is needed to make it again."""

    name: str
    run: dict[str, Any]
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    layers: tuple[Layer, ...]
    num_biases: int
    """Parameters that are not weights: biases, norms."""
    biases_kept: int
    """Those of them that are not zero."""
    validation: float
    """Validation accuracy of the finished network, in per cent."""
    test: float
    """Test accuracy of the finished network, in per cent."""
    epochs: tuple[Epoch, ...]
    seconds: float
    """Time spent training, pauses between resumed sessions left out."""
    notes: tuple[str, ...] = ()
    """What a reader should know: a layer that closed, an option that could not be used."""
    sizes: tuple[int, ...] = ()
    """How many kept weights have which size: below the first of SIZE_EDGES, between two, above the last; or unknown."""
    first_gates: tuple[int, ...] = ()
    """How many gates lay in each of 32 equal parts of [0, 1] before the first step; empty if there were none."""
    content: str = ""
    """The hash of the finished network's file, by which a run that begins with it knows it; empty if unknown."""

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
        """How many times fewer weights there are than in the dense network."""
        return self.total / max(1, self.kept)

    @property
    def rate_with_biases(self) -> float:
        """How many times fewer parameters, biases and norms counted in both."""
        return (self.total + self.num_biases) / max(1, self.kept + self.biases_kept)

    @property
    def num_with_indices(self) -> int:
        """The paper's second count: every kept weight and what says where it belongs."""
        return self.kept + sum(layer.num_indices for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values, with the derived counts beside the measured ones."""
        derived = {
            "total": self.total,
            "kept": self.kept,
            "rate": round(self.rate, 2),
            "rate_with_biases": round(self.rate_with_biases, 2),
            "num_with_indices": self.num_with_indices,
        }
        fields = dataclasses.asdict(self)
        fields["layers"] = tuple(_without(None, layer) for layer in fields["layers"])
        fields["epochs"] = tuple(_without((), epoch) for epoch in fields["epochs"])
        later = {
            name: value for name, nothing in LATER.items() if (value := fields.pop(name)) != nothing
        }
        return {"format": FORMAT, **fields, **later, "derived": derived}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        """The record in a dictionary that `to_json` made."""
        if value.get("format") != FORMAT:
            raise ValueError(f"a record of format {FORMAT} was wanted, got {value.get('format')!r}")
        fields = {
            field.name: value[field.name]
            for field in dataclasses.fields(cls)
            if field.name not in LATER
        }
        fields |= {name: type(nothing)(value.get(name, nothing)) for name, nothing in LATER.items()}
        fields["layers"] = tuple(
            Layer(**{**each, "shape": tuple(each["shape"])}) for each in value["layers"]
        )
        fields["epochs"] = tuple(Epoch.from_json(each) for each in value["epochs"])
        fields["notes"] = tuple(value["notes"])
        return cls(**fields)

    def save(self, path: Path) -> None:
        """Writes the record as a JSON file, whole or not at all."""
        write_atomically(path, json.dumps(self.to_json(), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        """Reads a record from a JSON file."""
        return cls.from_json(json.loads(path.read_text()))


def _without(nothing: object, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value != nothing}
