"""Makes the record of a finished network."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sparsegate_lab.record import Epoch, Record
from sparsegate_runtime.version import VERSION

from .evaluate import count_biases, count_layers, count_sizes
from .run import Run

PACKAGES = ("torch", "accelerate", "numpy")


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
        command: the command that made it; the words of this process unless given.
        processes: what is added to the description of the machine, such as `{"processes": 2}`.
        notes: remarks.
        first_gates: histogram of the gates before the first step.
    """
    num_biases, biases_kept = count_biases(model)
    return Record(
        name=name or run.name,
        run=run.to_json(),
        command=command or " ".join(sys.argv),
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


def machine() -> dict[str, Any]:
    """Processor, cores and accelerator, without names of hosts or people."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that influence a result."""
    return {
        "sparsegate": VERSION,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()
