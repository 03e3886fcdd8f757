"""A limit of time that trainings keep by themselves, between two epochs.

A process that is killed while it works on a GPU that several share can take the others with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparsegate_lab.batched import ManyWatcher
from sparsegate_lab.record import Epoch
from sparsegate_lab.train import Watcher


class LateError(RuntimeError):
    """The time is up; a checkpoint is there to go on from."""


class Deadline(Watcher):
    """Ends a run after the first epoch that ends too late."""

    def __init__(self, end: float) -> None:
        self.end = end  # in seconds since 1970, since processes share it

    def measured(self, epoch: Epoch) -> None:
        check(self.end, f"after epoch {epoch.epoch}")


class ManyDeadline(ManyWatcher):
    """Ends the training of many members after the first epoch that ends too late."""

    def __init__(self, end: float) -> None:
        self.end = end

    def measured(self, epochs: Sequence[Epoch]) -> None:
        check(self.end, f"after epoch {epochs[0].epoch}")


def check(end: float, when: str) -> None:
    """Raises if it is too late."""
    if time.time() > end:
        raise LateError(f"the time is up {when}")
