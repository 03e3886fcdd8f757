"""`sparsegate export`: a network for programs without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from sparsegate.export import EXPORTS, MAX_WEIGHTS
from sparsegate_lab.data import load_data

from .flags import parse_flags
from .network_file import settings_around
from .network_model import open_model

NUM_EXAMPLES = 512  # training images that show how large values become


@dataclass(frozen=True)
class Command:
    """Writes a network for programs without PyTorch: C code, or a page that runs it on what a person draws."""

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """A .sparse.safetensors, .sg or .safetensors file, a state dict saved by torch (.pt), or the folder of a run."""

    target: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """The file to write: NAME.c, with NAME.h beside it, or NAME.html."""

    to: str
    """What to write: c, or web."""

    dtype: Literal["fp32", "int8"] = "fp32"
    """Type of weights and values; int8 is for processors without floating point, and takes its steps from the data."""

    max_weights: int = MAX_WEIGHTS
    """Surviving weights to write at the most; with more, a compiler takes minutes, and a page draws slowly."""

    model: str | None = None
    """A registered network; a run knows its own, and of a file it is found by its tensors."""

    data: str | None = None
    """What the network was trained on: tells how bytes are normalised, and int8 its steps; unless said, its run's,
    and mnist for a file without one."""


def main(argv: list[str]) -> None:
    """Parses the command, writes the files, and says how large they are and what to do with them."""
    command: Command = parse_flags(Command, argv, name="sparsegate export", about="")
    exporters = EXPORTS[command.to]
    if command.dtype not in exporters:
        raise ValueError(
            f"--to {command.to} writes {' or '.join(exporters)}, got --dtype {command.dtype}; "
            "leave --dtype out"
        )
    name, model = open_model(command.source, command.model)
    data = load_data(command.data or settings_around(command.source).get("data", "mnist"))
    if model.image_shape != data.image_shape:
        raise ValueError(
            f"{name} takes images of {model.image_shape}, and the data has {data.image_shape}; --data names its own"
        )
    example = data.normalise(data.train.images[:NUM_EXAMPLES])
    written = exporters[command.dtype](
        model,
        command.target,
        example=example,
        max_weights=command.max_weights,
        normalise=data.normalise,
    )
    say = Console(highlight=False, markup=False, soft_wrap=True).print
    say(
        f"{' and '.join(map(str, written.files))}: {written.num_bytes:,} bytes, {written.num_weights:,} weights"
    )
    say(written.command)
