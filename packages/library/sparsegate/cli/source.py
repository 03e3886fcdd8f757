"""Opens the network that a path stands for, with the help of the packages that are installed."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from sparsegate.export import Normalise
from sparsegate.files import Packed, compress, load, read_state_dict

GROUP = "sparsegate.sources"
"""Entry points of this group open what only their package knows: a `SourceOpener` each."""
PACKED = (".sparse.safetensors", ".sg")
NO_LABORATORY = (
    "the file holds tensors only, and no installed package knows the model that they belong to; "
    "sparsegate-lab has a registry of models: pip install sparsegate-lab"
)


class AccuracyCheck(abc.ABC):
    """CONTRACT: measures and trains variants of a network on the data that it was trained on."""

    @abc.abstractmethod
    def accuracies(self, state: dict[str, Tensor]) -> str:
        """The accuracy of the network with these tensors, in words."""

    @abc.abstractmethod
    def tuned(
        self,
        state: dict[str, Tensor],
        epochs: int,
        *,
        per: Literal["layer", "network"],
        origin: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        """The tensors after training their shared values for some epochs, taught by `origin`."""


@dataclass(frozen=True)
class ExampleInputs:
    """Inputs of the kind that a network was trained on."""

    examples: Tensor
    """Some hundred normalized inputs."""
    normalise: Normalise
    """How bytes become these inputs."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A network, and what is known about it."""

    packed: Packed
    """Its tensors."""
    name: str = ""
    """The name of its model."""
    model: nn.Module | None = None
    """The model with the tensors in it, if it is known."""
    input_shape: tuple[int, ...] = ()
    """The shape of one input, without the batch dimension."""
    why_no_model: str = ""
    """Why there is no model."""
    inputs: Callable[[], ExampleInputs] | None = None
    """Loads inputs from the network's data."""
    check: Callable[[], AccuracyCheck] | None = None
    """Loads the data to measure accuracy with; None if nobody knows how it was trained."""


SourceOpener = Callable[[Path, str | None, str | None], Source | None]
"""Opens a path, given --model and --data; returns None for a path that it does not know."""


def open_source(path: Path, *, model: str | None = None, data: str | None = None) -> Source:
    """The network at a path, opened by the first installed package that knows its model.

    Args:
        path: A file or folder.
        model: The name of the model, if the user gave one.
        data: The name of the data, if the user gave one.

    """
    openers = [entry.load() for entry in entry_points(group=GROUP)]
    found = [source for opener in openers if (source := opener(path, model, data)) is not None]
    if not found and model is not None:
        raise ValueError(f"--model {model}: {NO_LABORATORY}")
    known = (source for source in found if source.model is not None)
    return next(known, found[0] if found else _file(path))


def read_network(path: Path) -> Packed:
    """The tensors in a file; nothing in it is executed."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file such as network.sg")
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    return load(path) if path.name.endswith(PACKED) else compress(read_state_dict(path))


def known_model(source: Source, path: Path) -> nn.Module:
    """The model of a source, or an error that says why it has none."""
    if source.model is None:
        raise ValueError(
            f"{path}: {source.why_no_model}; for a model of your own use Python: "
            "sparsegate.sparse runs it, sparsegate.to_c writes it"
        )
    return source.model


def _file(path: Path) -> Source:
    return Source(packed=read_network(path), why_no_model=NO_LABORATORY)
