"""The network that a run ends with, before it has learned anything."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sparsegate.method import Method
from sparsegate.models import MODELS

from .run import Run


def empty_network(run: Run[Any], num_classes: int = 10) -> nn.Module:
    """A model into which the state dict of the run's finished network can be loaded, whatever its layers are."""
    with torch.random.fork_rng(devices=()):
        method: Method = run.method
        return method.finish(method.rebuild(method.prepare(MODELS[run.model](num_classes=num_classes))))
