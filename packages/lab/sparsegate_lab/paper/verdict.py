"""Judges whether one of our numbers agrees with the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sparsegate_lab.study import Summary

from .printed import Printed

Verdict = Literal["agrees", "ahead", "differs", "holds", "does not hold", "not run yet"]


@dataclass(frozen=True)
class Tolerance:
    """The accepted distance from the paper's number, the reason, and which side counts as ahead."""

    within: float
    reason: str
    better: Literal["higher", "lower", ""] = ""
    """Beyond the tolerance on this side, ours is ahead rather than different."""

    def judge(self, ours: float, paper: float) -> Verdict:
        """Returns the verdict on a number.

        >>> Tolerance(0.2, "seeds", better="higher").judge(99.5, 99.2)
        'ahead'
        """
        difference = ours - paper
        if abs(difference) <= self.within * (1 + 1e-9):
            return "agrees"
        side = "higher" if difference > 0 else "lower"
        return "ahead" if side == self.better else "differs"


@dataclass(frozen=True)
class Check:
    """One number of the paper next to ours."""

    paper: Printed
    ours: Summary | None
    """None if nothing has been trained yet."""
    tolerance: Tolerance
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours.mean - self.paper.value

    @property
    def verdict(self) -> Verdict:
        """The verdict on the mean over the seeds."""
        return (
            "not run yet"
            if self.ours is None
            else self.tolerance.judge(self.ours.mean, self.paper.value)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the place of the number, both numbers and the verdict."""
        return {
            "table": self.paper.table,
            "row": self.paper.row,
            "column": self.paper.column,
            "paper": self.paper.value,
            "printed": self.paper.text,
            "ours": None if self.ours is None else vars(self.ours),
            "difference": None if self.difference is None else round(self.difference, 4),
            "tolerance": self.tolerance.within,
            "reason": self.tolerance.reason,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Claim:
    """A claim of the paper that our numbers support or contradict."""

    text: str
    holds: bool | None
    """None if nothing has been trained yet."""
    evidence: str = ""
    """The numbers that decide it."""

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds here."""
        if self.holds is None:
            return "not run yet"
        return "holds" if self.holds else "does not hold"

    def to_json(self) -> dict[str, Any]:
        """Returns the claim, the verdict and the numbers."""
        return {"claim": self.text, "verdict": self.verdict, "evidence": self.evidence}
