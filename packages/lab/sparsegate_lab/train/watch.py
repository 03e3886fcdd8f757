"""CONTRACT Watcher: who wants to see a run while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparsegate_lab.record import Epoch, Record

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from .run import Run


class Watcher:
    """Sees a run's moments; every one may be ignored, as this watcher does."""

    def decoded(self, done: int, total: int) -> None:
        """So many photographs are decoded, of so many; not told if they were in the cache."""

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Training begins, or goes on, at a step out of so many."""

    def stepped(self, step: int) -> None:
        """So many steps are done."""

    def measured(self, epoch: Epoch) -> None:
        """An epoch has ended."""

    def noted(self, note: str) -> None:
        """Something came up that a reader should know; the record will say it, too."""

    def ended(self, record: Record) -> None:
        """The run has its record."""

    def closed(self) -> None:
        """Nothing more will come, whether the run has ended or failed."""


class Watchers(Watcher):
    """Several watchers as one."""

    def __init__(self, *each: Watcher) -> None:
        self._each = each

    def decoded(self, done: int, total: int) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.decoded(done, total)

    def began(self, run: Run, folder: Path, step: int, steps: int, num_weights: int) -> None:  # type: ignore[type-arg]
        """Tells each."""
        for watcher in self._each:
            watcher.began(run, folder, step, steps, num_weights)

    def stepped(self, step: int) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.stepped(step)

    def measured(self, epoch: Epoch) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.measured(epoch)

    def noted(self, note: str) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.noted(note)

    def ended(self, record: Record) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.ended(record)

    def closed(self) -> None:
        """Tells each."""
        for watcher in self._each:
            watcher.closed()


class TensorBoard(Watcher):
    """Writes the epochs of a run for TensorBoard, beside its record."""

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
