"""Plans a program: the layout of what each layer reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from .layer import Conv, Layer, Linear, Pair, Pool, Shape
from .layout import Layout


@dataclass(frozen=True, eq=False)
class Stage:
    """A layer with the layouts of its input and output."""

    layer: Layer
    source: Layout
    target: Layout
    out: Shape
    """What it makes."""


def plan_stages(layers: list[Layer], shape: Shape) -> list[Stage]:
    """Plans the stages of a network that takes images of this shape.

    >>> conv = Conv(torch.ones(2, 1, 3, 3).double(), torch.zeros(2).double())
    >>> linear = Linear(torch.tensor([[0.0, 1.0]]).double(), torch.zeros(1).double())
    >>> plan_stages([conv, linear], (1, 3, 3))[0].target.live  # nobody reads channel 0
    (1,)
    """
    shapes = _shapes(layers, shape)
    live = _live(layers, shapes)
    borders: list[Pair] = [each.padding if isinstance(each, Conv) else (0, 0) for each in layers]
    layouts = [Layout(*each) for each in zip(shapes, live, [*borders, (0, 0)], strict=True)]
    return [
        Stage(layer, layouts[n], layouts[n + 1], shapes[n + 1]) for n, layer in enumerate(layers)
    ]


def _shapes(layers: list[Layer], shape: Shape) -> list[Shape]:
    """The shapes between layers, from the input to the output."""
    shapes, value = [shape], torch.zeros(1, *shape, dtype=torch.float64)
    for layer in layers:
        value = layer.run(value)
        _, channels, height, width = value.shape
        shapes.append((channels, height, width))
    return shapes


def _live(layers: list[Layer], shapes: list[Shape]) -> list[tuple[int, ...]]:
    """The channels that are read, between all layers; all channels of the input and the output."""
    live = [tuple(range(shapes[-1][0]))]
    for layer, shape in zip(layers[:0:-1], shapes[-2:0:-1], strict=True):
        live.append(live[-1] if isinstance(layer, Pool) else _read(layer, shape, live[-1]))
    return _whole_at_the_input(layers, [(), *live[::-1]], shapes)


def _whole_at_the_input(
    layers: list[Layer], live: list[tuple[int, ...]], shapes: list[Shape]
) -> list[tuple[int, ...]]:
    """All channels, at the input and before the poolings that follow it directly."""
    ends = next((at for at, layer in enumerate(layers) if not isinstance(layer, Pool)), len(layers))
    return [
        tuple(range(shape[0])) if at <= ends else each
        for at, (each, shape) in enumerate(zip(live, shapes, strict=True))
    ]


def _read(layer: Conv | Linear, shape: Shape, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The channels that the needed units of a layer read."""
    used = (layer.weight[list(wanted)] != 0).flatten(2 if isinstance(layer, Conv) else 1)
    if isinstance(layer, Linear):
        per_channel = used.any(0).view(shape[0], prod(shape[1:])).any(1)
        return tuple(per_channel.nonzero().flatten().tolist())
    inputs, group = used.any(2), len(layer.weight) // layer.groups
    rows = zip(wanted, inputs, strict=True)
    return tuple(
        sorted(
            {
                unit // group * inputs.shape[1] + int(at)
                for unit, row in rows
                for at in row.nonzero()
            }
        )
    )
