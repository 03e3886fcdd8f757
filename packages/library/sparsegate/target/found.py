"""What a training with a target came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """The price that a target led to, and what is left; its text says how to repeat the run with the price held.

    >>> print(Found("keep=0.1", kept=4000, total=40000, price=7.0, path=(9.0, 7.0), ended=True))
    keep=0.1: 4,000 of 40,000 weights are left (keep 0.10000); the price was 7: Target(price=7) repeats it roughly
    """

    asked: str
    kept: int
    """Gated weights that are left."""
    total: int
    """Gated weights."""
    price: float
    """The mean price in nats from the last quarter of the fall to the cut, each step counted by how far gates moved."""
    path: tuple[float, ...]
    """The mean price in equal parts of the way to the cut: `Target(path=found.path)` repeats the run closely."""
    ended: bool
    """Whether the exact cut has been made."""

    def __str__(self) -> str:
        if not self.ended:
            return f"{self.asked}: not there yet, {self.kept:,} of {self.total:,} weights are open"
        price = float(f"{self.price:.3g}")
        return (
            f"{self.asked}: {self.kept:,} of {self.total:,} weights are left (keep {self.kept / self.total:.5f}); "
            f"the price was {price:g}: Target(price={price:g}) repeats it roughly"
        )

    @property
    def how_to_repeat(self) -> str:
        """The words of a command that takes the path of the price again."""
        return f"--target.path {' '.join(f'{price:.4g}' for price in self.path)} repeats the run closely"
