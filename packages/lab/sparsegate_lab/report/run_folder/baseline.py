"""Finds the dense run next to a run, or the command that creates one."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from sparsegate_lab.methods import Dense
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Stop

from ..network_view import Baseline

SAME = ("model", "data")  # without these in common, two runs are no comparison


def find_baseline(folder: Path, record: Record) -> Baseline | None:
    """Returns the dense run in the folder with most settings in common; none for a dense run."""
    if record.run["method"]["name"] == "dense":
        return None
    command = dense_command(record.run, folder.parent)
    found = [other for other in _beside(folder) if _is_dense_of(other.run, record.run)]
    if not found:
        return Baseline(command)
    best = min(found, key=lambda other: len(_differences(other.run, record.run)))
    differs = _differences(best.run, record.run)
    return Baseline(command, best.name, best.test, best.kept, best.seconds, differs)


def _beside(folder: Path) -> list[Record]:
    return [
        record
        for path in sorted(folder.parent.glob("*/record.json"))
        if (record := _readable(path)) is not None
    ]


def _readable(path: Path) -> Record | None:
    try:
        return Record.load(path)
    except (ValueError, KeyError, TypeError, OSError):  # of another version, or no record at all
        return None


def _is_dense_of(other: dict[str, Any], run: dict[str, Any]) -> bool:
    return other["method"]["name"] == "dense" and all(
        other.get(name) == run.get(name) for name in SAME
    )


def _differences(other: dict[str, Any], run: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [name for name in run if name != "method" and other.get(name) != run[name]]
    return {name: (other.get(name), run[name]) for name in names}


def dense_command(run: dict[str, Any], folder: Path) -> str:
    """Returns the command that trains the dense network with the same settings, if it is known.

    Settings that a dense run does not have are left out: an early stop at a number of weights, and
    an average of the weights after the mask is frozen.
    """
    try:
        settings = Run.from_json(run)
        dense = dataclasses.replace(settings, method=Dense(), stop=Stop(), average=None)
    except (ValueError, KeyError, TypeError, AttributeError):  # of another version
        return ""
    return shlex.join(["sparsegate", "train", *dense.to_flags(), "--folder", str(folder)])
