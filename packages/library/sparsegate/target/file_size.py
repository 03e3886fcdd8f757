"""The goal of a file size."""

from __future__ import annotations

import warnings

from .goal import LOOKS, Goal, View, falling, largest
from .target import Target, UnreachableTarget

SPARE = 0.005  # of the size: values, and with them their cost, still change after the cut
TRIES, EXACTLY = 12, 64
SELDOM = 4  # looks between two measurements, for which a file is made


class FileSize(Goal):
    """As many weights as fit into a file of a given size."""

    def __init__(self, target: Target, view: View) -> None:
        assert target.bytes is not None
        self._target, self._wanted = target, target.bytes
        self._start = float(view.num_open())
        self._head = view.bytes_of(view.num_layers())
        if self._wanted < self._head:
            raise ValueError(
                f"bytes={self._wanted:,} is too few: with one weight in each of the "
                f"{view.num_layers()} gated layers the file has {self._head:,} bytes of other "
                f"weights, biases and head; ask for at least bytes={round(1.02 * self._head)}"
            )
        self._count = self._estimate(view.num_gates(), view)
        if self._count >= view.num_gates():
            warnings.warn(
                f"bytes={self._wanted:,} holds the network with all its weights: "
                "none will be removed",
                UnreachableTarget,
                stacklevel=2,
            )

    def budget(self, progress: float) -> float:
        """Falls to the estimated number of weights that fit."""
        return falling(
            self._target,
            progress,
            start=max(self._start, float(self._count)),
            end=float(self._count),
        )

    def aimed(self) -> float:
        """The estimated number of weights that fit."""
        return float(self._count)

    def look(self, view: View, progress: float) -> None:
        """Measures what a weight costs with the present masks: fewer weights cost more each."""
        if progress >= self._target.begin and round(progress * LOOKS) % SELDOM == 0:
            self._count = self._estimate(view.num_open(), view)

    def final(self, view: View) -> int:
        """The largest number that fits, with a small reserve."""
        room = round(self._wanted * (1 - SPARE))
        about = self._estimate(self._count, view)
        low, high = max(view.num_layers(), about // 2), min(view.num_gates(), 2 * about)
        return largest(lambda count: view.bytes_of(count) <= room, low, high, tries=TRIES)

    def end(self, view: View) -> int | None:
        """Fewer weights if the file has outgrown its size since the cut; None if not."""
        now = view.num_open()
        if view.bytes_of(now) <= self._wanted:
            return None
        near = max(view.num_layers(), round(0.95 * now))
        low = near if view.bytes_of(near) <= self._wanted else view.num_layers()
        return largest(lambda count: view.bytes_of(count) <= self._wanted, low, now, tries=EXACTLY)

    def state(self) -> list[float]:
        """The number that fits, where the fall began, and the bytes of all else."""
        return [float(self._count), self._start, float(self._head)]

    def load(self, state: list[float]) -> None:
        """Restores them."""
        self._count, self._start, self._head = int(state[0]), state[1], int(state[2])

    def _estimate(self, count: int, view: View) -> int:
        """How many weights fit at the mean cost of a weight in a network of `count`."""
        each = (view.bytes_of(count) - self._head) / max(1, count - view.num_layers())
        fits = view.num_layers() + (self._wanted - self._head) / max(each, 1e-3)
        return min(view.num_gates(), max(view.num_layers(), int(fits)))
