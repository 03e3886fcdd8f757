"""`sparsegate inspect`: where the bits of a network go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sparsegate.files import Packed

from .flags import parse_flags
from .network_file import open_network
from .network_model import model_of
from .savings import savings

BAR = 40


@dataclass(frozen=True)
class Command:
    """Shows a network's tensors, how sparse they are, what is dead in it, and what its file takes and could take."""

    path: Annotated[Path, tyro.conf.Positional]
    """A .sparse.safetensors, .sg or .safetensors file, a state dict saved by torch (.pt), or the folder of a run."""

    model: str | None = None
    """The registered model that the tensors belong to; without it, it is recognised by names and shapes."""


def main(argv: list[str]) -> None:
    """Parses the command, opens the network, and shows it."""
    command: Command = parse_flags(Command, argv, name="sparsegate inspect", about="")
    packed = open_network(command.path)
    _, model = model_of(packed, command.model) or (None, None)
    say = Console(highlight=False, markup=False, soft_wrap=True).print
    say("\n".join([str(packed), "", *bars(packed)]))
    say("\n".join(["", *savings(packed, command.path, model)]))


def bars(packed: Packed) -> list[str]:
    """What is kept of every weight, as a bar."""
    weights = {
        name: entry
        for name, entry in packed.entries.items()
        if len(entry.shape) >= 2 and entry.total
    }
    width = max(map(len, weights), default=0)
    return [
        f"{name:{width}}  {_bar(entry.kept / entry.total)} {100 * entry.kept / entry.total:6.2f} % kept"
        for name, entry in weights.items()
    ]


def _bar(share: float) -> str:
    full = round(share * BAR)
    return "#" * full + "." * (BAR - full)
