"""The frozen description of a run, whose hash names its folder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from sparsegate.method import Method
from sparsegate.methods import METHODS, LearnedGates

AnyMethod = TypeVar("AnyMethod", bound=Method)


@dataclass(frozen=True)
class Run(Generic[AnyMethod]):
    """Everything that determines a trained network."""

    model: str = "lenet5"
    """A registered network."""

    data: str = "mnist"
    """A registered dataset, or the path of a folder with MNIST-format idx files."""

    method: AnyMethod = dataclasses.field(default_factory=LearnedGates)  # type: ignore[assignment]
    """How the network is made smaller."""

    epochs: int = 20
    """Passes over the training images."""

    batch_size: int = 128
    """Images in a step, over all processes together."""

    lr: float = 0.03
    """First learning rate of the weights (SGD with momentum); a cosine takes it to zero."""

    momentum: float = 0.9
    """Momentum of the weights."""

    weight_decay: float = 1e-4
    """Decay of the weights; gates have none."""

    shift: int = 2
    """Training images are moved by up to so many pixels."""

    seed: int = 0
    """Where all randomness comes from."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Type of the forward and backward pass; weights and gates stay in fp32. fp16 needs a GPU."""

    compile: bool = False
    """Compile the network with torch.compile; pays on a GPU, seldom on a CPU."""

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is at least 1, got {self.epochs}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is at least 1, got {self.batch_size}")
        if not 0 <= self.shift <= 14:
            raise ValueError(f"shift is in pixels, from 0 (none) to 14, got {self.shift}")
        if not (self.lr > 0 and 0 <= self.momentum < 1 and self.weight_decay >= 0):
            raise ValueError(
                "lr is above zero, momentum in [0, 1) and weight_decay zero or more, "
                f"got lr={self.lr}, momentum={self.momentum}, weight_decay={self.weight_decay}"
            )
        if self.precision not in ("fp32", "bf16", "fp16"):
            raise ValueError(f"precision is fp32, bf16 or fp16, got {self.precision!r}")

    @property
    def method_name(self) -> str:
        """The method's name in the registry, or its class's name if it is not registered."""
        kinds = {kind: name for name, kind in METHODS.items()}
        return kinds.get(type(self.method), type(self.method).__name__)

    @property
    def name(self) -> str:
        """Model, method and a hash of all settings: the run's folder.

        >>> Run(epochs=5).name == Run(epochs=5).name != Run(epochs=6).name
        True
        """
        digest = hashlib.blake2b(json.dumps(self.to_json(), sort_keys=True).encode(), digest_size=4).hexdigest()
        return f"{self.model}-{self.method_name}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """All settings as plain values, the method's name among its own."""
        settings = _plain(self)
        return {**settings, "method": {"name": self.method_name, **settings["method"]}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Run[Any]:
        """The run in a dictionary that `to_json` made.

        >>> Run.from_json(Run(epochs=5).to_json()) == Run(epochs=5)
        True
        """
        method = dict(value["method"])
        kind = METHODS[method.pop("name")]
        return cls(**{**value, "method": _from_plain(kind, method)})


def _plain(value: Any) -> Any:
    """A setting as a JSON file gives it back, with whole numbers as floats where floats are wanted."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if not dataclasses.is_dataclass(value):
        return value
    fields = {field.name: (str(field.type), getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {
        name: float(each) if kind.startswith("float") and isinstance(each, int) else _plain(each)
        for name, (kind, each) in fields.items()
    }


def _from_plain(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_plain(Any, each) for each in value)
    if not dataclasses.is_dataclass(kind):
        return value
    kinds = get_type_hints(kind)
    return kind(**{name: _from_plain(kinds[name], each) for name, each in value.items()})  # type: ignore[operator]
