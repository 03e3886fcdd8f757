"""`sparsegate compress`: a network into the smallest file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from sparsegate.files import Packed, compress

from .accuracy_check import Trial
from .flags import parse_flags
from .network_file import open_network, run_of
from .savings import quantised


@dataclass(frozen=True)
class Command:
    """Writes a network with zeros to a file that is truly smaller, without losing a bit unless told to."""

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """A .sparse.safetensors, .sg or .safetensors file, a state dict saved by torch (.pt), or the folder of a run."""

    target: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """The file to write: NAME.sparse.safetensors, which any safetensors reader opens, or NAME.sg, the smaller."""

    bits: int | None = None
    """Give the kept weights at most 2^bits values, from 2 to 8 bits; without it the file is lossless."""

    per: Literal["network", "layer"] = "network"
    """With --bits: values for the whole network, or for each layer."""

    tune: int = 0
    """With --bits and the folder of a run: epochs of training for the values, on the run's data."""


def main(argv: list[str]) -> None:
    """Parses the command, writes the file, and says how large it is and what it lost."""
    command: Command = parse_flags(Command, argv, name="sparsegate compress", about="")
    packed = open_network(command.source)
    say = Console(highlight=False, markup=False, soft_wrap=True).print
    if command.bits is not None:
        packed, words = _quantised(packed, command)
        say(words)
    packed.save(command.target)
    size, dense = (
        command.target.stat().st_size,
        sum(entry.num_bytes for entry in packed.entries.values()),
    )
    say(
        f"{command.target}: {size:,} bytes, {dense / max(1, size):.1f} times smaller than dense ({dense:,})"
    )


def _quantised(packed: Packed, command: Command) -> tuple[Packed, str]:
    assert command.bits is not None
    state = packed.state_dict()
    settings = run_of(command.source)
    if command.tune and settings is None:
        raise ValueError(
            f"--tune needs the data of a run, and {command.source} is not the folder of one"
        )
    trial = Trial(settings) if settings is not None else None
    before = trial.accuracies(state) if trial else ""
    state = quantised(state, command.bits, per=command.per)
    after = trial.accuracies(state) if trial else ""
    words = (
        f"before {before}; after {after}"
        if trial
        else "accuracy unknown: the source is not the folder of a run"
    )
    if trial and command.tune:
        state = trial.tuned(state, command.tune, per=command.per, origin=packed.state_dict())
        words += f"; tuned {trial.accuracies(state)}"
    return compress(state), f"{command.bits} bits: {words}"
