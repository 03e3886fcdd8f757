"""Makes the record of a finished network."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from sparsegate import bench
from sparsegate.bench import machine
from sparsegate_lab.record import Epoch, Record

from .evaluate import count_biases, count_layers, count_sizes
from .run import Run

__all__ = ["machine", "make_record", "versions"]

KERNEL = "ipykernel_launcher.py"


def make_record(
    run: Run[Any],
    model: nn.Module,
    *,
    accuracies: dict[str, float],
    epochs: Iterable[Epoch],
    seconds: float,
    name: str = "",
    command: str = "",
    processes: dict[str, int] | None = None,
    notes: Iterable[str] = (),
    first_gates: tuple[int, ...] = (),
) -> Record:
    """The record of a run: its settings, its machine, and what the finished network contains.

    Args:
        run: the run.
        model: the finished network.
        accuracies: accuracy in percent on `validation` and `test`.
        epochs: the measurements of every epoch.
        seconds: the training time.
        name: the name of the record; the run's unless given.
        command: the command that made it; the words of this process unless given; in a notebook,
            those that train the same.
        processes: what is added to the description of the machine, such as `{"processes": 2}`.
        notes: remarks.
        first_gates: histogram of the gates before the first step.
    """
    num_biases, biases_kept = count_biases(model)
    return Record(
        name=name or run.name,
        run=run.to_json(),
        command=command or _command(run),
        machine=machine() | (processes or {"processes": 1}),
        versions=versions(),
        layers=count_layers(model),
        num_biases=num_biases,
        biases_kept=biases_kept,
        validation=accuracies["validation"],
        test=accuracies["test"],
        epochs=tuple(epochs),
        seconds=round(seconds, 1),
        notes=tuple(notes),
        sizes=count_sizes(model),
        first_gates=first_gates,
    )


def _command(run: Run[Any]) -> str:
    if Path(sys.argv[0]).name == KERNEL:  # its words say nothing of the notebook
        return shlex.join(["sparsegate", "train", *run.to_flags()])
    return " ".join(sys.argv)


def versions() -> dict[str, str]:
    """The versions of sparsegate, Python and the packages that influence a result."""
    return bench.versions("torch", "accelerate", "numpy")
