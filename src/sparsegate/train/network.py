"""The network that a run ends with, before it has learned anything."""

from __future__ import annotations

import json
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from sparsegate.method import Method
from sparsegate.models import MODELS

from .run import Run
from .teacher import Teacher


def empty_network(run: Run[Any], num_classes: int = 10) -> nn.Module:
    """A model into which the state dict of the run's finished network can be loaded, whatever its layers are."""
    with torch.random.fork_rng(devices=()):
        method: Method = run.method
        return method.finish(method.rebuild(method.prepare(MODELS[run.model](num_classes=num_classes))))


def teacher_network(teacher: Teacher, num_classes: int) -> nn.Module:
    """The network of a finished run, to learn from."""
    run = Run.from_json(json.loads((teacher.network.parent / "run.json").read_text()))
    model = empty_network(run, num_classes)
    model.load_state_dict(load_file(teacher.network))
    return model
