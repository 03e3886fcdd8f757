"""Ranks studies of one network by several methods against learned gates of the same size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sparsegate_lab.study import Study, Summary

GATES = "learned_gates"
SLACK = 1.02  # of the size: a seed more or less should not decide who may compete


@dataclass(frozen=True)
class Contestant:
    """The study of one method."""

    recipe: str
    study: Study

    @property
    def is_gates(self) -> bool:
        """Whether the network was made by learned gates."""
        return bool(self.study.records[0].run["method"]["name"] == GATES)

    @property
    def kept(self) -> Summary:
        """The number of weights, or of what a layer stores instead of weights."""
        return self.study.summary(lambda record: record.kept)

    @property
    def with_indices(self) -> Summary:
        """The number of weights and of indices that say where they belong."""
        return self.study.summary(lambda record: record.num_with_indices)

    @property
    def rate(self) -> Summary:
        """How many times fewer weights the network has."""
        return self.study.summary(lambda record: record.rate)

    @property
    def test(self) -> Summary:
        """The test accuracy."""
        return self.study.summary(lambda record: record.test)

    @property
    def validation(self) -> float:
        """The mean validation accuracy, which selects networks."""
        return self.study.summary(lambda record: record.validation).mean

    def noise(self, otherwise: float = 0.0) -> float:
        """The standard error of the mean test accuracy; one seed uses another study's spread."""
        num_seeds = len(self.study.records)
        return (self.test.spread if num_seeds > 1 else otherwise) / math.sqrt(num_seeds)


def best_gates(entries: Iterable[Contestant], *, at_most: float) -> Contestant | None:
    """Returns the gated network of at most this size that has the best validation accuracy."""
    fitting = [each for each in entries if each.is_gates and each.kept.mean <= at_most * SLACK]
    return max(fitting, key=lambda each: each.validation, default=None)


def standing(gates: Contestant | None, other: Contestant) -> str:
    """Says in words how learned gates of at most the same size compare with a method."""
    if gates is None:
        return "no gates so small"
    difference = gates.test.mean - other.test.mean
    noise = 2 * math.hypot(gates.noise(other.test.spread), other.noise(gates.test.spread))
    word = "level" if abs(difference) <= noise else "ahead" if difference > 0 else "behind"
    return f"{word} ({difference:+.2f}, with {gates.kept.mean:,.0f})"
