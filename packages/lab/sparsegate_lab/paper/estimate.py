"""Estimates how long runs will take on this machine."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sparsegate_lab.record import Record
from sparsegate_lab.train import Run, Watcher, machine, train

WARM_UP, TIMED = 5, 40  # steps
REST = 1.15  # an epoch with its measurement, over its steps alone


class _Timed(Exception):  # noqa: N818
    """Ends a run whose steps have been timed."""


class _Stopwatch(Watcher):
    """Times some steps of a run, then ends it."""

    def __init__(self) -> None:
        self.steps, self.seconds, self._began = 0, 0.0, 0.0

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        """Notes how many steps there would be."""
        self.steps = steps

    def stepped(self, step: int) -> None:
        """Starts the clock when caches are warm, and ends the run when enough is known."""
        if step == WARM_UP:
            self._began = time.perf_counter()
        if step == min(WARM_UP + TIMED, self.steps):
            self.seconds = (time.perf_counter() - self._began) / (step - WARM_UP)
            raise _Timed


def seconds_for(
    runs: Sequence[Run[Any]], records: Iterable[Record], *, processes: int = 1
) -> float:
    """Returns the seconds that runs will take, from earlier records of this machine or a trial."""
    threads = threads_each(processes)
    rates = _known(records, {**machine(), "threads": threads})
    for run in runs:
        if _kind(run) not in rates:
            rates[_kind(run)] = _tried(run, threads)
    return sum(run.epochs * rates[_kind(run)] for run in runs) / processes


def threads_each(processes: int) -> int:
    """Returns the threads for each of several processes."""
    return max(1, torch.get_num_threads() // processes)


def in_words(seconds: float) -> str:
    """Returns a duration in words.

    >>> in_words(95.0), in_words(2400.0), in_words(18720.0)
    ('2 minutes', '40 minutes', '5.2 hours')
    """
    minutes = max(1, round(seconds / 60))
    return (
        f"{minutes} minute{'s' * (minutes > 1)}" if minutes < 100 else f"{minutes / 60:.1f} hours"
    )


def _kind(run: Run[Any]) -> tuple[Any, ...]:
    return run.model, run.data, run.method_name, run.batch_size, run.precision, run.compile


def _known(records: Iterable[Record], here: Mapping[str, Any]) -> dict[tuple[Any, ...], float]:
    """Returns the seconds of an epoch from records of this machine: the shortest of each kind."""
    rates: dict[tuple[Any, ...], float] = {}
    for record in records:
        if record.epochs and all(record.machine.get(part) == value for part, value in here.items()):
            kind = _kind(Run.from_json(record.run))
            rates[kind] = min(record.seconds / len(record.epochs), rates.get(kind, float("inf")))
    return rates


def _tried(run: Run[Any], threads: int) -> float:
    """Returns the seconds of an epoch, measured on some steps in a temporary folder."""
    watch, before = _Stopwatch(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(_Timed):
            train(run, folder=folder, watch=watch)
    finally:
        torch.set_num_threads(before)
    return watch.seconds * watch.steps / run.epochs * REST
