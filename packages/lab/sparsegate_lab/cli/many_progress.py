"""A progress bar for many members at once."""

from __future__ import annotations

from collections.abc import Sequence

from rich import progress
from rich.console import Console

from sparsegate_lab.batched import ManyWatcher, Member
from sparsegate_lab.record import Epoch


class ManyProgress(ManyWatcher):
    """Shows many members on a terminal as one bar; elsewhere as one line an epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: progress.Progress | None = None
        self._task = progress.TaskID(0)
        self._epochs = 0

    def began(self, members: Sequence[Member], step: int, steps: int) -> None:
        """Says what is trained, and opens the bar."""
        run = members[0].run
        self._epochs = run.epochs
        resumed = f", resuming at step {step:,} of {steps:,}" if step else ""
        self._console.print(
            f"training {len(members)} networks, {run.model} on {run.data}, at once{resumed}"
        )
        if self._console.is_terminal:
            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TaskProgressColumn(),
            )
            self._bar = progress.Progress(
                *columns, progress.TimeRemainingColumn(), console=self._console
            )
            self._task = self._bar.add_task(f"{run.epochs} epochs", total=steps, completed=step)
            self._bar.start()

    def stepped(self, step: int) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def measured(self, epochs: Sequence[Epoch]) -> None:
        """Shows accuracies and weights after the epoch, the smallest network first."""
        low, high = (pick(epochs, key=lambda each: each.kept) for pick in (min, max))
        words = (
            f"epoch {epochs[0].epoch}/{self._epochs}  kept {low.kept:,} at {low.validation:.2f} % "
            f"to {high.kept:,} at {high.validation:.2f} %"
        )
        if self._bar is not None:
            self._bar.update(self._task, description=words)
        else:
            self._console.print(words)

    def closed(self) -> None:
        """Closes the bar, also when training ends with an error."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
