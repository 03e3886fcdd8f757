"""What comes after a member's last epoch, when the learning rate has come down to zero once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Again:
    """Some epochs more, in which the learning rate begins again; none unless they are given.

    >>> Again(epochs=60).about()
    ('60 epochs more, in which the learning rate began again at 0.006',)

    Everything before them is as it would be without them: they are no part of the run, whose settings are fractions of
    its own epochs.
    """

    epochs: int = 0
    """How many come after those of the run."""

    lr: float = 0.006
    """Where the learning rate begins; it rises as `Late` says, and a cosine takes it to zero."""

    def __post_init__(self) -> None:
        if self.epochs < 0 or not self.lr > 0:
            raise ValueError(f"epochs is zero or more and lr above zero, got {self.epochs} and {self.lr}")

    def about(self) -> tuple[str, ...]:
        """What a reader of the record should know."""
        begun = f"{self.epochs} epochs more, in which the learning rate began again at {self.lr}"
        return (begun,) if self.epochs else ()
