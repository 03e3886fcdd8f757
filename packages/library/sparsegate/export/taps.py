"""Taps: the kept weights of a layer, each with the position that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from .layer import ConvLayer, LinearLayer
from .plan import Stage

Tap: TypeAlias = tuple[float, int]
"""A weight, and the position that it reads first."""

PART_SIZE = (
    1200  # multiplications in one C function: compilers take more than linear time for longer ones
)


@dataclass(frozen=True)
class OutputUnit:
    """An output channel or feature, and its weights."""

    index: int
    place: int
    """The position of its first value."""
    bias: float
    taps: tuple[Tap, ...]


def units_of(stage: Stage) -> list[OutputUnit]:
    """The units of a layer that a later layer reads."""
    layer = stage.layer
    assert isinstance(layer, ConvLayer | LinearLayer)
    taps = _conv_taps if isinstance(layer, ConvLayer) else _linear_taps
    return [
        OutputUnit(
            index,
            stage.target.at(index, 0, 0),
            float(layer.bias[index]),
            tuple(taps(stage, layer, index)),  # type: ignore[arg-type]
        )
        for index in stage.target.live
    ]


def parts(units: list[OutputUnit], width: int) -> list[list[OutputUnit]]:
    """Groups units so that each group compiles quickly."""
    groups: list[list[OutputUnit]] = []
    size = PART_SIZE
    for unit in units:
        size += (1 + len(unit.taps)) * width
        if size > PART_SIZE:
            groups.append([])
            size = (1 + len(unit.taps)) * width
        groups[-1].append(unit)
    return groups


def _linear_taps(stage: Stage, layer: LinearLayer, index: int) -> Iterator[Tap]:
    row = layer.weight[index]
    for at in row.nonzero().flatten().tolist():
        yield float(row[at]), stage.source.feature(at)


def _conv_taps(stage: Stage, layer: ConvLayer, index: int) -> Iterator[Tap]:
    kernel, source = layer.weight[index], stage.source
    group = index // (len(layer.weight) // layer.groups)
    for channel, y, x in kernel.nonzero().tolist():
        # Counted from the border's corner, which a padded convolution reads first.
        slot = source.slots[group * len(kernel) + channel]
        place = slot * source.plane + y * layer.dilation[0] * source.row + x * layer.dilation[1]
        yield float(kernel[channel, y, x]), place
