"""Creates the network that a run begins with, and loads its teachers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from sparsegate.distil import Distil, Ensemble
from sparsegate_lab.data import Dataset
from sparsegate_lab.method import Method
from sparsegate_lab.models import find_model, load_weights_, make_model
from sparsegate_runtime.schema import load_json

from .evaluate import count_layers
from .front import Front
from .run import Run
from .seed import fold
from .weights import finished_network, read_weights

COLOURS = 3


def fresh_network(run: Run[Any], data: Dataset) -> tuple[nn.Module, int]:
    """The model with its initial weights, not yet prepared, and its number of weights."""
    wanted = _image_shape(run)
    fits = data.resizable and data.image_shape[0] == wanted[0]
    if data.image_shape != wanted and not fits:
        raise ValueError(
            f"{run.model} takes images of shape {wanted}, {run.data} has {data.image_shape}"
        )
    if run.erase >= max(wanted[1:]):
        raise ValueError(
            f"erase is the side of a square that is smaller than the image, got {run.erase} for "
            f"images of {wanted[1]} by {wanted[2]} pixels"
        )
    if run.normalise == "imagenet" and wanted[0] != COLOURS:
        raise ValueError(
            f"normalise imagenet is for {COLOURS} colors, {run.model} takes images of {wanted}"
        )
    torch.manual_seed(fold(run.seed, "weights"))
    model = make_model(run.model, num_classes=data.num_classes)
    num_weights = sum(layer.total for layer in count_layers(model))
    if run.weights:
        load_weights_(model, read_weights(run.weights), new_head=run.new_head)
    return model, num_weights


def empty_network(run: Run[Any], num_classes: int = 10) -> nn.Module:
    """A model with the layers of the run's finished network, to load its state dict into."""
    with torch.random.fork_rng(devices=()):
        method: Method = run.method
        model = make_model(run.model, num_classes=num_classes)
        front = front_of(run, model)
        finished = method.finish(method.prepare(model, progress=1.0))
        return finished if front is None else front.put_back_(finished)


def front_of(run: Run[Any], model: nn.Module) -> Front | None:
    """The run's front, taken out of the model in place; None if the run has none."""
    return Front.taken_from(model, run.front, _image_shape(run)) if run.front else None


def distil_of(
    run: Run[Any], num_classes: int, device: torch.device, front: Front | None = None
) -> Distil:
    """The distillation loss with the run's teachers, the networks of finished runs."""
    models = [_finished(network, run, num_classes) for network in run.distil.networks]
    if front is not None:
        _share_front(models, front)
    teacher = models[0] if len(models) == 1 else Ensemble(*models)
    teacher.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if run.compile:
        teacher.compile()
    return Distil(teacher, run.distil.temperature, run.distil.share)


def _share_front(models: list[nn.Module], front: Front) -> None:
    """Takes the front out of all teachers, which must be the run's."""
    for model in models:
        if Front.taken_from(model, front.name, front.image_shape).hash != front.hash:
            raise ValueError(
                f"a teacher has another front {front.name}; train it with this run's --front and "
                "--weights, as both read the same outputs"
            )


def _finished(network: Path, run: Run[Any], num_classes: int) -> nn.Module:
    """The network of a finished run, which must take the same images and know the same classes."""
    own = load_json(network.parent / "run.json", Run.from_json)
    for what, theirs, ours in (
        ("normalise", own.normalise, run.normalise),
        ("images of shape", _image_shape(own), _image_shape(run)),
    ):
        if theirs != ours:
            raise ValueError(
                f"the teacher in {network.parent} has {what} {theirs}, this run {ours}; "
                "both must see the same images"
            )
    model = empty_network(own, num_classes)
    finished_network(network.parent)  # raises if it is damaged
    try:
        model.load_state_dict(load_file(network))
    except SafetensorError as error:
        raise ValueError(f"the teacher's {network} is damaged: {error}") from error
    except RuntimeError as error:  # of shapes
        raise ValueError(
            f"the teacher in {network.parent} does not fit {run.data}, which has {num_classes} "
            "classes: a teacher must have learned the same ones"
        ) from error
    return model


def _image_shape(run: Run[Any]) -> tuple[int, int, int]:
    shape: tuple[int, int, int] = find_model(run.model).image_shape  # type: ignore[attr-defined]
    return shape
