"""`sparsegate export`: a network for programs without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from rich.console import Console
from torch import Tensor, nn

from sparsegate.data import Dataset, load_data
from sparsegate.export import EXPORTS, MAX_WEIGHTS
from sparsegate.models import MODELS

from .flags import parse_flags
from .network_file import open_network, run_of

NUM_EXAMPLES = 512  # training images that show how large values become


@dataclass(frozen=True)
class Command:
    """Writes a network for programs without PyTorch: C code, or a page that runs it on what a person draws."""

    source: Annotated[Path, tyro.conf.Positional]
    """A .sparse.safetensors, .sg or .safetensors file, a state dict saved by torch (.pt), or the folder of a run."""

    target: Annotated[Path, tyro.conf.Positional]
    """The file to write: NAME.c, with NAME.h beside it, or NAME.html."""

    to: str
    """What to write: c, or web."""

    dtype: Literal["fp32", "int8"] = "fp32"
    """Type of weights and values; int8 is for processors without floating point, and takes its steps from the data."""

    max_weights: int = MAX_WEIGHTS
    """Surviving weights to write at the most; with more, a compiler takes minutes, and a page draws slowly."""

    model: str | None = None
    """A registered network; a run knows its own, and of a file it is found by its tensors."""

    data: str = "mnist"
    """Data that the network was trained on: gives the steps of int8, and mean and spread of images in bytes; a run
    knows its own."""


def main(argv: list[str]) -> None:
    """Parses the command, writes the files, and says how large they are and what to do with them."""
    command: Command = parse_flags(Command, argv, name="sparsegate export", about="")
    exporter = EXPORTS[command.to]
    state = open_network(command.source).state_dict()
    settings = run_of(command.source) or {}
    data = load_data(settings.get("data", command.data))
    model = _model(settings.get("model", command.model), state, data)
    example = data.normalise(data.train.images[:NUM_EXAMPLES])
    written = exporter(
        model,
        command.target,
        example=example,
        dtype=command.dtype,
        max_weights=command.max_weights,
        normalise=data.normalise,
    )
    say = Console(highlight=False, markup=False, soft_wrap=True).print
    say(f"{' and '.join(map(str, written.files))}: {written.num_bytes:,} bytes, {written.num_weights:,} weights")
    say(written.command)


def _model(name: str | None, state: dict[str, Tensor], data: Dataset) -> nn.Module:
    """The network that the tensors belong to, for the images of the data."""
    shapes = {each: tensor.shape for each, tensor in state.items()}
    names = [name] if name else list(MODELS)
    with torch.device("meta"):  # one of them has 138 million weights
        each = {one: MODELS[one](num_classes=data.num_classes) for one in names}
    fitting = [one for one, model in each.items() if {k: v.shape for k, v in model.state_dict().items()} == shapes]
    if not fitting:
        raise ValueError(
            f"the tensors are not those of {' or '.join(names)} with {data.num_classes} classes; name the network with "
            "--model and its data with --data"
        )
    with torch.random.fork_rng(devices=()):
        model = MODELS[fitting[0]](num_classes=data.num_classes)
    if model.image_shape != data.image_shape:
        raise ValueError(f"the network takes images of {model.image_shape}, and the data has {data.image_shape}")
    model.load_state_dict(state)
    return model
