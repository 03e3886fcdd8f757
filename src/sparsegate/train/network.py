"""The networks that a run begins and ends with, before they have learned anything."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sparsegate.data import Dataset
from sparsegate.method import Method
from sparsegate.models import MODELS

from .evaluate import count_layers
from .run import Run
from .seed import fold


def fresh_network(run: Run[Any], data: Dataset) -> tuple[nn.Module, int]:
    """The model with its first weights, prepared by the run's method, and how many weights it had before."""
    build = MODELS[run.model]
    wanted = build.image_shape  # type: ignore[attr-defined]
    if data.image_shape != wanted:
        raise ValueError(f"{run.model} takes images of shape {wanted}, {run.data} has {data.image_shape}")
    torch.manual_seed(fold(run.seed, "weights"))
    model = build(num_classes=data.num_classes)
    num_weights = sum(layer.total for layer in count_layers(model))
    return run.method.prepare(model), num_weights


def empty_network(run: Run[Any], num_classes: int = 10) -> nn.Module:
    """A model into which the state dict of the run's finished network can be loaded, whatever its layers are."""
    with torch.random.fork_rng(devices=()):
        method: Method = run.method
        return method.finish(method.rebuild(method.prepare(MODELS[run.model](num_classes=num_classes))))
