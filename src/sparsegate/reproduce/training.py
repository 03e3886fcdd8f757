"""Trains the runs that an exhibit lacks, several at a time if asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from sparsegate.record import Epoch, Record
from sparsegate.train import Run, Watcher, train

Told = Callable[[float, str], None]


class _Epochs(Watcher):
    """Tells of every step as a fraction of an epoch."""

    def __init__(self, told: Told) -> None:
        self._told, self._about, self._step, self._per_epoch = told, "", 0, 1

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        self._about, self._step, self._per_epoch = folder.name, step, max(1, steps // run.epochs)
        self._told(step / self._per_epoch, folder.name)

    def stepped(self, step: int) -> None:
        self._told((step - self._step) / self._per_epoch, self._about)
        self._step = step

    def measured(self, epoch: Epoch) -> None:
        self._about = f"{self._about.split(':')[0]}: validation {epoch.validation:.2f} %, {epoch.kept:,} kept"
        self._told(0.0, self._about)


def train_all(
    runs: Sequence[Run[Any]], *, folder: Path, command: str, processes: int = 1, told: Told | None = None
) -> list[Record]:
    """The records of the runs, in order; `told` hears how many epochs more are done, and of which run.

    Every run has its folder and goes on where it stopped, so the whole may be interrupted and begun again.
    """
    if processes < 1:
        raise ValueError(f"processes is how many runs are trained at a time, at least 1, got {processes}")
    tell = told or (lambda *_: None)
    if processes == 1 or len(runs) < 2:
        return [train(run, folder=folder, command=command, watch=_Epochs(tell)) for run in runs]
    threads = max(1, torch.get_num_threads() // processes)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_trained, run, folder, command, threads): run for run in runs}
        for done in as_completed(waiting):
            tell(waiting[done].epochs, done.result().name)
        return [done.result() for done in waiting]


def _trained(run: Run[Any], folder: Path, command: str, threads: int) -> Record:
    torch.set_num_threads(threads)
    return train(run, folder=folder, command=command)
