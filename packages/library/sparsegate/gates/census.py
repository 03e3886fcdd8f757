"""What a training loop can log about gates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from sparsegate.sharded import local, sum_of_parts, whole

from .draw import OPEN_ABOVE
from .gate import Gate
from .install import require_gates

NUM_BINS = 32  # a power of two: every edge, 0.5 among them, is exact
UNDECIDED = (0.1, 0.9)  # a gate between these is neither clearly closed nor clearly open


class ClosedLayer(UserWarning):
    """A layer has lost its last weight and passes on nothing but its bias."""


@dataclass(frozen=True)
class Reading:
    """The state of all gates at one moment."""

    kept: dict[str, int]
    """Open gates of each weight."""
    total: dict[str, int]
    """Gates of each weight."""
    keep: float
    """Fraction of weights that a drawn mask is expected to keep."""
    variance: float
    """Variance of one element of a drawn mask, averaged over all gates; 0 under Threshold."""
    undecided: float
    """Fraction of gates between 0.1 and 0.9."""
    flipped: float
    """Fraction of gates that opened or closed since the last reading; 0 in the first."""
    histogram: tuple[int, ...]
    """How many gates lie in each of 32 equal parts of [0, 1]; a gate on an edge belongs to the part below."""


class Census:
    """Reads a model's gates now and then, remembering the last masks, and warns of layers that have closed.

    >>> from sparsegate.gates import gate
    >>> census = Census(gate(nn.Linear(3, 2)))
    >>> census.take().kept
    {'weight': 6}
    """

    def __init__(self, model: nn.Module) -> None:
        self._gates = require_gates(model)
        self._masks: dict[str, Bool[Tensor, "..."]] = {}
        self._warned: set[str] = set()

    @torch.no_grad()
    def take(self) -> Reading:
        """Counts all gates; on a sharded model every process must call it."""
        masks = {name: each.gate > OPEN_ABOVE for name, each in self._gates.items()}
        drawn = list(self._gates.values())
        reading = Reading(
            kept={name: int(_number(mask.sum())) for name, mask in masks.items()},
            total={name: mask.numel() for name, mask in masks.items()},
            keep=self._mean([each.draw.keep(each.gate) for each in drawn]),
            variance=self._mean([each.draw.variance(each.gate) for each in drawn]),
            undecided=self._mean([_undecided(each).float().mean() for each in drawn]),
            flipped=self._mean(
                [
                    (mask ^ self._masks.get(name, mask)).float().mean()
                    for name, mask in masks.items()
                ]
            ),
            histogram=tuple(torch.stack([histogram(each.gate) for each in drawn]).sum(0).tolist()),
        )
        self._masks = masks
        self._alarm(reading)
        return reading

    def _mean(self, of_each: list[Tensor]) -> float:
        """The mean over all gates of what is a mean over the gates of one weight."""
        sizes = [each.gate.numel() for each in self._gates.values()]
        return sum(_number(mean) * size for mean, size in zip(of_each, sizes, strict=True)) / sum(
            sizes
        )

    def _alarm(self, reading: Reading) -> None:
        for name, number in reading.kept.items():
            if number == 0 and name not in self._warned:
                self._warned.add(name)
                # stacklevel: _alarm, take, no_grad's wrapper, the caller
                warnings.warn(has_closed(name), ClosedLayer, stacklevel=4)


def has_closed(name: str) -> str:
    """What to tell about a weight whose gates have all closed."""
    return (
        f"every gate of {name} has closed, so the layer passes on only its bias; lower Penalty.count or "
        "the gates' learning rate, start the gates higher, or leave the layer out: Select(skip=...)"
    )


def _undecided(each: Gate) -> Bool[Tensor, "..."]:
    return (each.gate > UNDECIDED[0]) & (each.gate < UNDECIDED[1])


def histogram(gate: Tensor) -> Int64[Tensor, " bin"]:
    """Counts in equal parts of [0, 1], over all processes if the gates are sharded."""
    # An edge belongs to the part below, as 0.5 itself is closed.
    bins = (
        (local(gate.detach()) * NUM_BINS)
        .ceil_()
        .sub_(1)
        .clamp_(0, NUM_BINS - 1)
        .nan_to_num_()
        .int()
    )
    counts = torch.bincount(bins.flatten(), minlength=NUM_BINS)
    return sum_of_parts(counts, gate)


def _number(value: Tensor) -> float:
    return float(whole(value))
