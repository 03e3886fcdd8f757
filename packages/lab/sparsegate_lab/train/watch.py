"""CONTRACT Watcher: observes a run, for progress bars and logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparsegate_lab.record import Epoch, Record

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from .run import Run


class Watcher:
    """Is called as a run proceeds; this one does nothing."""

    def decoded(self, done: int, total: int) -> None:
        """`done` of `total` photographs are decoded; not called if they were in the cache."""

    def computed(self, done: int, total: int) -> None:
        """The front's outputs of `done` of `total` images are computed; not if in the cache."""

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Training begins, or continues, at a step."""

    def stepped(self, step: int) -> None:
        """A number of steps is done."""

    def measured(self, epoch: Epoch) -> None:
        """An epoch has ended."""

    def noted(self, note: str) -> None:
        """A remark, which the record will contain too."""

    def ended(self, record: Record) -> None:
        """The run has its record."""

    def closed(self) -> None:
        """The run has ended or failed; nothing follows."""


class Watchers(Watcher):
    """Calls several watchers."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def decoded(self, done: int, total: int) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.decoded(done, total)

    def computed(self, done: int, total: int) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.computed(done, total)

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.began(run, folder, step, steps, num_weights)

    def stepped(self, step: int) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.stepped(step)

    def measured(self, epoch: Epoch) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.measured(epoch)

    def noted(self, note: str) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.noted(note)

    def ended(self, record: Record) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.ended(record)

    def closed(self) -> None:
        """Calls all watchers."""
        for watcher in self._watchers:
            watcher.closed()


class TensorBoard(Watcher):
    """Writes the epochs of a run for TensorBoard, into the run's folder."""

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    @staticmethod
    def is_installed() -> bool:
        """Whether TensorBoard can be imported."""
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            return False
        return True

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Opens the event file."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))  # type: ignore[no-untyped-call]

    def measured(self, epoch: Epoch) -> None:
        """Writes one point of every curve."""
        assert self._writer is not None
        for name in ("loss", "validation", "kept", "undecided", "flipped", "variance"):
            self._writer.add_scalar(name, getattr(epoch, name), epoch.epoch)  # type: ignore[no-untyped-call]

    def ended(self, record: Record) -> None:
        """Writes the test accuracy."""
        assert self._writer is not None
        self._writer.add_scalar("test", record.test, len(record.epochs))  # type: ignore[no-untyped-call]

    def closed(self) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()  # type: ignore[no-untyped-call]
