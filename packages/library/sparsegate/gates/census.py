"""Counts gates, for logs of a training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
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
    """A layer has lost its last weight and outputs only its bias."""


@dataclass(frozen=True)
class Reading:
    """The state of all gates at one moment."""

    kept: dict[str, int]
    """Open gates of each weight."""
    total: dict[str, int]
    """Gates of each weight."""
    keep: float
    """Expected fraction of weights that a drawn mask keeps."""
    variance: float
    """Variance of one element of a drawn mask, averaged over all gates; 0 under Threshold."""
    undecided: float
    """Fraction of gates between 0.1 and 0.9."""
    flipped: float
    """Fraction of gates that opened or closed since the last reading; 0 in the first."""
    histogram: tuple[int, ...]
    """Gates in each of 32 equal bins of [0, 1]; a gate on an edge belongs to the bin below."""


class Census:
    """Counts a model's gates when asked, and warns once of every layer that has closed.

    >>> from sparsegate.gates import gate
    >>> census = Census(gate(nn.Linear(3, 2)))
    >>> census.take().kept
    {'weight': 6}

    Args:
        model: A gated model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._gates = require_gates(model)
        self._masks: dict[str, Bool[Tensor, "..."]] = {}
        self._warned: set[str] = set()

    @torch.no_grad()
    def take(self) -> Reading:
        """Counts all gates; on a sharded model every process must call it.

        Raises:
            ValueError: If a gate is NaN.
        """
        check_finite_gates({name: gate.gate for name, gate in self._gates.items()})
        masks = {name: gate.gate > OPEN_ABOVE for name, gate in self._gates.items()}
        drawn = list(self._gates.values())
        reading = Reading(
            kept={name: int(_number(mask.sum())) for name, mask in masks.items()},
            total={name: mask.numel() for name, mask in masks.items()},
            keep=self._mean([gate.draw.keep(gate.gate) for gate in drawn]),
            variance=self._mean([gate.draw.variance(gate.gate) for gate in drawn]),
            undecided=self._mean([_undecided(gate).float().mean() for gate in drawn]),
            flipped=self._mean(
                [
                    (mask ^ self._masks.get(name, mask)).float().mean()
                    for name, mask in masks.items()
                ]
            ),
            histogram=tuple(torch.stack([histogram(gate.gate) for gate in drawn]).sum(0).tolist()),
        )
        self._masks = masks
        self._alarm(reading)
        return reading

    def _mean(self, means: list[Tensor]) -> float:
        """The average of the weights' means, weighted by their number of gates."""
        sizes = [gate.gate.numel() for gate in self._gates.values()]
        products = (_number(mean) * size for mean, size in zip(means, sizes, strict=True))
        return sum(products) / sum(sizes)

    def _alarm(self, reading: Reading) -> None:
        for name, number in reading.kept.items():
            if number == 0 and name not in self._warned:
                self._warned.add(name)
                # stacklevel: _alarm, take, no_grad's wrapper, the caller
                warnings.warn(has_closed(name), ClosedLayer, stacklevel=4)


def has_closed(name: str) -> str:
    """The warning for a weight whose gates have all closed."""
    return (
        f"every gate of {name} has closed, so the layer passes on only its bias; lower "
        "Penalty.count or the gates' learning rate, start the gates higher, or leave the layer "
        "out: Select(skip=...)"
    )


def check_finite_gates(gates: Mapping[str, Tensor]) -> None:
    """Raises if any gate is NaN or infinite, and names its weight; waits for a GPU."""
    with torch.no_grad():
        sums = torch.stack([local(gate).sum(dtype=torch.float32) for gate in gates.values()])
    bad = [name for name, fine in zip(gates, sums.isfinite().tolist(), strict=True) if not fine]
    if bad:
        raise ValueError(
            f"gates of {', '.join(bad)} became NaN; check the loss and its gradients for NaN and "
            "infinity, or lower the learning rates"
        )


def _undecided(gate: Gate) -> Bool[Tensor, "..."]:
    return (gate.gate > UNDECIDED[0]) & (gate.gate < UNDECIDED[1])


def histogram(gate: Tensor) -> Int64[Tensor, " bin"]:
    """Counts in equal bins of [0, 1], over all processes if the gates are sharded."""
    # An edge belongs to the bin below, as 0.5 itself is closed.
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
