"""Plans a program: the layout of what each layer reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch

from .layer import ConvLayer, Layer, LinearLayer, Pair, PoolLayer, Shape


@dataclass(frozen=True)
class ChannelLayout:
    """The positions of channels x height x width values.

    >>> layout = ChannelLayout((3, 2, 4), live=(0, 2), border=(1, 1))
    >>> layout.plane, layout.size, layout.at(2, 0, 0)  # 24 = 4 * 6; 31 = 24 + 6 + 1
    (24, 48, 31)
    """

    shape: Shape
    live: tuple[int, ...]
    """The channels that a later layer reads."""
    border: Pair = (0, 0)

    @property
    def row(self) -> int:
        """Distance between rows."""
        return self.shape[2] + 2 * self.border[1]

    @property
    def plane(self) -> int:
        """Distance between channels."""
        return self.row * (self.shape[1] + 2 * self.border[0])

    @property
    def size(self) -> int:
        """Number of values, including the border."""
        return self.plane * len(self.live)

    @cached_property
    def slots(self) -> dict[int, int]:
        """The position of each live channel in memory."""
        return {channel: slot for slot, channel in enumerate(self.live)}

    def at(self, channel: int, y: int, x: int) -> int:
        """The position of a value; (0, 0) is the first inside the border."""
        return (
            self.slots[channel] * self.plane + (y + self.border[0]) * self.row + x + self.border[1]
        )

    def feature(self, index: int) -> int:
        """The position of the value with this index in the flattened result."""
        _, height, width = self.shape
        channel, place = divmod(index, height * width)
        return self.at(channel, *divmod(place, width))


@dataclass(frozen=True, eq=False)
class Stage:
    """A layer with the layouts of its input and output."""

    layer: Layer
    source: ChannelLayout
    target: ChannelLayout
    out: Shape
    """What it makes."""


def plan_stages(layers: list[Layer], shape: Shape) -> list[Stage]:
    """Plans the stages of a network that takes images of this shape.

    >>> conv = ConvLayer(torch.ones(2, 1, 3, 3).double(), torch.zeros(2).double())
    >>> linear = LinearLayer(torch.tensor([[0.0, 1.0]]).double(), torch.zeros(1).double())
    >>> plan_stages([conv, linear], (1, 3, 3))[0].target.live  # nobody reads channel 0
    (1,)
    """
    shapes = _shapes(layers, shape)
    live = _live(layers, shapes)
    borders: list[Pair] = [
        each.padding if isinstance(each, ConvLayer) else (0, 0) for each in layers
    ]
    layouts = [ChannelLayout(*each) for each in zip(shapes, live, [*borders, (0, 0)], strict=True)]
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
        live.append(live[-1] if isinstance(layer, PoolLayer) else _read(layer, shape, live[-1]))
    return _whole_at_the_input(layers, [(), *live[::-1]], shapes)


def _whole_at_the_input(
    layers: list[Layer], live: list[tuple[int, ...]], shapes: list[Shape]
) -> list[tuple[int, ...]]:
    """All channels, at the input and before the poolings that follow it directly."""
    ends = next(
        (at for at, layer in enumerate(layers) if not isinstance(layer, PoolLayer)), len(layers)
    )
    return [
        tuple(range(shape[0])) if at <= ends else each
        for at, (each, shape) in enumerate(zip(live, shapes, strict=True))
    ]


def _read(layer: ConvLayer | LinearLayer, shape: Shape, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The channels that the needed units of a layer read."""
    used = (layer.weight[list(wanted)] != 0).flatten(2 if isinstance(layer, ConvLayer) else 1)
    if isinstance(layer, LinearLayer):
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
