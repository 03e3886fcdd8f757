"""The model that a network's tensors belong to: the one of its run, the one that is named, or the one that fits."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sparsegate.compress import Packed
from sparsegate.models import MODELS

from .network_file import open_network, run_of


def open_model(path: Path, name: str | None = None) -> tuple[str, nn.Module]:
    """A registered model with the tensors of a file or of a run, and its name."""
    packed = open_network(path)
    settings = run_of(path) or run_of(path.parent)
    found = name or (str(settings["model"]) if settings else _fitting(packed, path))
    model = MODELS[found](num_classes=_num_classes(packed))
    return found, packed.into(model)


def _fitting(packed: Packed, path: Path) -> str:
    """The one model whose tensors have these names and shapes."""
    shapes = {name: tuple(packed.entries[packed.same.get(name, name)].plan.shape) for name in packed}
    with torch.device("meta"):
        each = {name: MODELS[name](num_classes=_num_classes(packed)).state_dict() for name in MODELS}
    fitting = [name for name, state in each.items() if {key: tuple(one.shape) for key, one in state.items()} == shapes]
    if len(fitting) != 1:
        raise ValueError(
            f"{len(fitting) or 'none'} of the models has the tensors of {path}; name one with --model: "
            f"{', '.join(fitting or MODELS)}; for a model of your own, time sg.sparse in Python"
        )
    return fitting[0]


def _num_classes(packed: Packed) -> int:
    """Rows of the last matrix."""
    shapes = [packed.entries[packed.same.get(name, name)].plan.shape for name in packed]
    return next((shape[0] for shape in reversed(shapes) if len(shape) == 2), 10)
