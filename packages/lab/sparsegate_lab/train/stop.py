"""When a run may end before its last epoch: small enough and accurate enough, both at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """Ends training after an epoch that leaves few weights and little accuracy lost.

    >>> stop = Stop(rate=10.0, drop=0.5)
    >>> [stop.reached(kept, 1000, validation, 57.2) for kept, validation in ((100, 56.8), (100, 56.5), (200, 57.2))]
    [True, False, False]
    """

    rate: float = 0.0
    """Training may end after an epoch that leaves this many times fewer weights; 0: it goes on to the last."""

    drop: float = 0.0
    """... if validation accuracy is then at the most so many points under the baseline."""

    baseline: float | None = None
    """Validation accuracy to compare with, in per cent; without it that of the weights the run begins with."""

    def __post_init__(self) -> None:
        if not (self.rate == 0 or self.rate > 1) or not self.drop >= 0:
            raise ValueError(
                f"stop.rate is above 1, or 0 for never, and drop 0 or more, got {self.rate}, {self.drop}"
            )

    def reached(self, kept: int, total: int, validation: float, baseline: float) -> bool:
        """Whether this few weights at this accuracy are enough."""
        return self.rate > 0 and kept * self.rate <= total and validation >= baseline - self.drop

    def words(self, baseline: float) -> str:
        """What was reached."""
        return f"{self.rate:g}x fewer weights, validation accuracy within {self.drop:g} of {baseline:.2f} %"
