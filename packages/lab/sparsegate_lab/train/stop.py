"""Ends a run early once the network is small and accurate enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """Ends training after an epoch that reaches a compression rate at a small loss of accuracy.

    >>> stop = Stop(rate=10.0, drop=0.5)
    >>> stop.reached(100, 1000, 56.8, baseline=57.2)
    True
    >>> stop.reached(100, 1000, 56.5, baseline=57.2), stop.reached(200, 1000, 57.2, baseline=57.2)
    (False, False)
    """

    rate: float = 0.0
    """End training once the network has this many times fewer weights; 0: never."""

    drop: float = 0.0
    """Largest loss of validation accuracy at that moment, in points below the baseline."""

    baseline: float | None = None
    """Validation accuracy in percent to compare with; that of the initial weights unless given."""

    def __post_init__(self) -> None:
        if not (self.rate == 0 or self.rate > 1) or not self.drop >= 0:
            raise ValueError(
                "stop.rate is above 1, or 0 for never, and drop 0 or more, "
                f"got {self.rate}, {self.drop}"
            )

    def reached(self, kept: int, total: int, validation: float, baseline: float) -> bool:
        """Whether a network with `kept` of `total` weights and this accuracy ends the run."""
        return self.rate > 0 and kept * self.rate <= total and validation >= baseline - self.drop

    def words(self, baseline: float) -> str:
        """A remark for the record."""
        return (
            f"{self.rate:g}x fewer weights, validation accuracy within {self.drop:g} of "
            f"{baseline:.2f} %"
        )
