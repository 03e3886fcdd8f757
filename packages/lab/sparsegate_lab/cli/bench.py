"""`sparsegate bench`: a network timed by every engine that is installed, side by side."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from rich.progress import track
from torch import nn

from sparsegate.runtime import RIVALS, Choice, Outcome, timings
from sparsegate.speed import Speed
from sparsegate_lab.report import (
    ENDINGS,
    PLOT_MISSING,
    aligned,
    plot_paths,
    plot_speed,
    speed_table,
)
from sparsegate_lab.train import machine, versions

from .flags import parse_flags
from .network_model import open_model


@dataclass(frozen=True)
class Command:
    """Times a network dense and sparse: torch, the other engines that are installed, and ours."""

    path: Annotated[Path, tyro.conf.Positional]
    """A .sparse.safetensors, .sg or .safetensors file, a state dict saved by torch (.pt), or the folder of a run."""

    model: str | None = None
    """A registered network; a run knows its own, and of a file it is found by its tensors."""

    batches: tuple[int, ...] = (1, 16, 64, 256)
    """Images at a time."""

    threads: tuple[int, ...] = ()
    """Threads to use, one table part each; without it 1, 2, 4 and so on up to those of the machine."""

    compile: bool = True
    """Time torch.compile as well, which takes half a minute for every batch."""

    seconds: float = 1.0
    """Time for every engine at every batch."""

    out: Path | None = None
    """File for the record (JSON); the plot goes beside it."""


def main(argv: list[str]) -> None:
    """Parses the command, times the network, and shows the tables."""
    command: Command = parse_flags(Command, argv, name="sparsegate bench", about="")
    _check(command)
    name, model = open_model(command.path, command.model)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    installed = [each for each in RIVALS if RIVALS[each].available()]
    engines = [each for each in installed if command.compile or each != "torch.compile"]
    missing = [each for each in RIVALS if each not in installed]
    notes = dict.fromkeys([f"not installed: {', '.join(missing)}"] if missing else [])
    found, choices = [], []
    for timing, choice, failed in _watched(command, model, engines, console):
        found.append(timing)
        choices.append(choice)
        notes |= dict.fromkeys(failed)
    words = shlex.join(["sparsegate", "bench", *argv])
    layers = tuple(asdict(choice) for choice in choices)
    speed = Speed(name, words, machine(), _versions(engines), tuple(found), layers, tuple(notes))
    _show(speed, choices, console)
    if command.out is not None:
        _save(speed, command.out, console)


def _check(command: Command) -> None:
    if not command.batches or min(command.batches) < 1 or min(command.threads, default=1) < 1:
        raise ValueError(
            f"batches and threads are counted from 1, got --batches {command.batches} --threads {command.threads}"
        )
    if not 0 < command.seconds < math.inf:
        raise ValueError(f"seconds is a time above zero, got --seconds {command.seconds}")
    if command.out is not None:
        _check_out(command.out, command.path)


def _check_out(out: Path, path: Path) -> None:
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} to write {out.name} to")
    if out.is_dir() or out.suffix in ENDINGS:
        raise ValueError(
            f"--out is a file for the record, such as speed.json, with the plot beside it; got {out}"
        )
    if path.resolve() in (out.resolve(), *(each.resolve() for each in plot_paths(out))):
        raise ValueError(
            f"--out {out} would be written over the network itself; choose another name"
        )


def _watched(
    command: Command, model: nn.Module, engines: list[str], console: Console
) -> Iterator[Outcome]:
    """Every outcome, with a bar on a terminal."""
    threads = command.threads or _powers(torch.get_num_threads())
    steps = timings(
        *(model, model.image_shape),  # type: ignore[arg-type]
        batches=command.batches,
        threads=threads,
        engines=engines,
        seconds=command.seconds,
    )
    total = len(threads) * len(command.batches)
    yield from track(
        steps,
        f"{', '.join(engines)}",
        total=total,
        console=console,
        disable=not console.is_terminal,
    )


def _powers(most: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and the last."""
    return (*(1 << place for place in range(most.bit_length()) if 1 << place < most), most)


def _versions(engines: list[str]) -> dict[str, str]:
    return versions() | {RIVALS[each].package: str(RIVALS[each].version()) for each in engines}


def _show(speed: Speed, choices: list[Choice], console: Console) -> None:
    """The table of engines, then what was chosen for every layer and why."""
    about = [
        f"{speed.network}, medians in milliseconds",
        aligned(speed_table(speed)),
        *map("note: {}".format, speed.notes),
    ]
    worst = max(
        (each for timing in speed.timings for each in timing.differences.values()), default=0.0
    )
    about.append(f"outputs agree to {worst:.1e} of the largest")
    console.print("\n".join(about))
    for choice in choices:
        console.print("\n" + choice.table())


def _save(speed: Speed, out: Path, console: Console) -> None:
    speed.save(out)
    plots = plot_speed(speed, out)
    console.print(
        "\n" + ", ".join(map(str, [out, *plots])) + ("" if plots else f"; {PLOT_MISSING}")
    )
