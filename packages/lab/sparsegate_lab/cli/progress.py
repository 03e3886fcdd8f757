"""A progress bar with accuracy, kept weights and time left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import progress
from rich.console import Console

from sparsegate_lab.record import Epoch
from sparsegate_lab.train import Run, Watcher


class Progress(Watcher):
    """Shows a run on a terminal as one bar; elsewhere as one line an epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: progress.Progress | None = None
        self._task = progress.TaskID(0)
        self._num_weights = 0
        self._epochs = 0
        self._preparing = ""

    def decoded(self, done: int, total: int) -> None:
        """Shows how many photographs are in the cache."""
        self._prepared(f"decoding {total:,} photographs, once", done, total)

    def computed(self, done: int, total: int) -> None:
        """Shows for how many images the front is done."""
        self._prepared(f"computing what the front gives for {total:,} images, once", done, total)

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        """Says what is trained and where, and opens the bar."""
        self._num_weights, self._epochs = num_weights, run.epochs
        resumed = f", resuming at step {step:,} of {steps:,}" if step else ""
        self._console.print(
            f"training {run.model} on {run.data} in {folder}{resumed}",
            highlight=False,
            markup=False,
        )
        if self._console.is_terminal:
            self._open(f"{run.epochs} epochs", steps, step)

    def _prepared(self, words: str, done: int, total: int) -> None:
        """Shows how much of what is kept in the cache is there."""
        if words != self._preparing:
            self._preparing = words
            if self._console.is_terminal:
                self._open(words, total, 0)
            else:
                self._console.print(words, highlight=False, markup=False)
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        if done == total:
            self.closed()

    def _open(self, words: str, total: int, done: int) -> None:
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task(words, total=total, completed=done)
        self._bar.start()

    def stepped(self, step: int) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def measured(self, epoch: Epoch) -> None:
        """Shows the accuracy and the weights after the epoch."""
        rate = self._num_weights / max(1, epoch.kept)
        words = (
            f"epoch {epoch.epoch}/{self._epochs}  validation {epoch.validation:.2f} %  "
            f"kept {epoch.kept:,} ({rate:,.1f}x)"
        )
        if self._bar is not None:
            self._bar.update(self._task, description=words)
        else:
            self._console.print(f"{words}  loss {epoch.loss:.4f}", highlight=False, markup=False)

    def noted(self, note: str) -> None:
        """Shows a remark above the bar, which the record will contain too."""
        self._console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)

    def closed(self) -> None:
        """Closes the bar, also when the run ends with an error."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
