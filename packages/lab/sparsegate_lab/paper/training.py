"""Trains the runs that an exhibit lacks, several at a time if wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from sparsegate_lab.record import Epoch, Record
from sparsegate_lab.train import Run, Watcher, train

from .estimate import threads_each

Told = Callable[[float, str], None]


class _Epochs(Watcher):
    """Reports every step as a fraction of an epoch."""

    def __init__(self, told: Told) -> None:
        self._told, self._about, self._step, self._per_epoch = told, "", 0, 1

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        self._about, self._step, self._per_epoch = folder.name, step, max(1, steps // run.epochs)
        self._told(step / self._per_epoch, folder.name)

    def stepped(self, step: int) -> None:
        self._told((step - self._step) / self._per_epoch, self._about)
        self._step = step

    def measured(self, epoch: Epoch) -> None:
        self._about = (
            f"{self._about.split(':')[0]}: validation {epoch.validation:.2f} %, {epoch.kept:,} kept"
        )
        self._told(0.0, self._about)


def train_all(
    runs: Sequence[Run[Any]],
    *,
    folder: Path,
    command: str,
    processes: int = 1,
    told: Told | None = None,
) -> list[Record]:
    """Trains runs and returns their records, in order; `told` receives the progress of each run.

    Every run has its own folder and resumes from its last checkpoint.
    """
    if processes < 1:
        raise ValueError(
            f"processes is how many runs are trained at a time, at least 1, got {processes}"
        )
    tell = told or (lambda *_: None)
    if processes == 1 or len(runs) < 2:
        return [train(run, folder=folder, command=command, watch=_Epochs(tell)) for run in runs]
    context = get_context("spawn")
    news = context.SimpleQueue()  # what is put there is there before the run's result is
    begin = (news, threads_each(processes))
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=begin
    ) as pool:
        waiting = [pool.submit(_trained, run, folder, command) for run in runs]
        left = set(waiting)
        while left:
            done, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
            _pass_on(news, tell)
            for each in done:
                each.result()  # raises what the run raised
        return [each.result() for each in waiting]


def _pass_on(news: Any, tell: Told) -> None:
    """Passes on what the processes have reported so far."""
    while not news.empty():
        tell(*news.get())


_NEWS: list[Any] = []
"""Where a training process writes its progress."""


def _begin(news: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    _NEWS.append(news)


def _trained(run: Run[Any], folder: Path, command: str) -> Record:
    return train(
        run, folder=folder, command=command, watch=_Epochs(lambda *words: _NEWS[0].put(words))
    )
