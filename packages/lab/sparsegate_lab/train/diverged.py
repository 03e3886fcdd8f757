"""Training that has come to nothing: the loss is no longer a number."""

from __future__ import annotations

import math


class DivergedError(RuntimeError):
    """The loss is no longer a number."""


def check_finite(loss: float, epoch: int, lr: float) -> None:
    """Raises if the loss of an epoch is no number, and says what to try."""
    if not math.isfinite(loss):
        raise DivergedError(
            f"the loss became {loss} in epoch {epoch}; lower lr (now {lr}) or the gates' learning rate; "
            "nothing of this epoch was kept"
        )
