"""Draws networks of all kinds of layers, with the shape of an input."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor, nn

WIDTHS = (1, 3, 8, 10, 16, 17, 40, 64)
SIZES = (5, 6, 7, 8, 13, 14, 16, 28)
ACTIVATIONS = (
    nn.ReLU,
    nn.ReLU,
    nn.LeakyReLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.GELU,
    nn.ReLU6,
    nn.SiLU,
    nn.ELU,
)
Drawn = tuple[nn.Module, tuple[int, ...]]
"""A network, and the shape of one input without the batch."""


class Residual(nn.Module):
    """Adds its input to what a layer makes of it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum."""
        total: Tensor = inputs + self.inner(inputs)
        return total


class Branches(nn.Module):
    """What several layers make of the same input, one behind the other."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.ModuleList(inner)

    def forward(self, inputs: Tensor) -> Tensor:
        """All outputs."""
        return torch.cat([layer(inputs) for layer in self.inner], 1)


class Steps(nn.Module):
    """A recurrent layer, and a linear one on all of its steps or on the last."""

    def __init__(self, cell: nn.RNNBase, out: nn.Module, *, last: bool) -> None:
        super().__init__()
        self.cell, self.out, self.last = cell, out, last

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores."""
        steps = self.cell(inputs)[0]
        total: Tensor = self.out(steps[:, -1] if self.last else steps)
        return total


def drawn_model(draw: Random) -> Drawn:
    """A network in eval mode and the shape of an input."""
    kinds = (_convolutional, _convolutional, _branching, _linear, _recurrent, _attending)
    model, shape = draw.choice(kinds)(draw)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            layer.running_mean.normal_()  # type: ignore[union-attr]
            layer.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return model.eval(), shape


def _linear(draw: Random) -> Drawn:
    columns = first = draw.choice(WIDTHS)
    layers: list[nn.Module] = []
    for _ in range(draw.randint(1, 4)):
        rows = draw.choice(WIDTHS)
        if rows == columns and draw.random() < 0.5:
            layers.append(Residual(nn.Linear(columns, rows)))
        else:
            layers.append(nn.Linear(columns, rows, bias=draw.random() < 0.7))
        layers += [nn.BatchNorm1d(rows)] * (draw.random() < 0.2)
        layers += [draw.choice(ACTIVATIONS)()] * (draw.random() < 0.8)
        columns = rows
    return nn.Sequential(*layers), (first,)


def _convolutional(draw: Random) -> Drawn:
    channels = first = draw.choice((1, 2, 3, 8, 16, 32))
    layers: list[nn.Module] = []
    for _ in range(draw.randint(1, 3)):
        block, out = _block(draw, channels)
        same = out == channels and _keeps_size(block[0])
        layers += [Residual(nn.Sequential(*block))] if same and draw.random() < 0.5 else block
        layers += [nn.MaxPool2d(2)] * (draw.random() < 0.2)
        channels = out
    model = nn.Sequential(*layers)
    model.eval()
    size, flat = draw.choice(SIZES), 0
    while not flat:
        try:
            flat = model(torch.zeros(1, first, size, size)).flatten(1).shape[1]
        except RuntimeError:  # an image smaller than the taps
            size += 8
    if draw.random() < 0.5:
        model.extend([nn.Flatten(), nn.Linear(flat, draw.choice(WIDTHS))])
    return model, (first, size, size)


def _branching(draw: Random) -> Drawn:
    """Convolutions next to each other, and layers that change the size of an image."""
    first, wide, size = draw.choice((1, 3, 8)), draw.choice((4, 8, 16)), draw.choice((6, 7, 8, 12))
    stem = nn.Sequential(nn.Conv2d(first, wide, 3, padding=1), draw.choice(ACTIVATIONS)())
    sides: list[nn.Module] = [
        nn.Conv2d(wide, wide, 1),
        nn.Conv2d(wide, wide, 3, padding=1, groups=draw.choice((1, wide))),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(wide, wide, 1)),
        nn.Sequential(nn.Conv2d(wide, wide, 3, padding=1), nn.GroupNorm(2, wide), nn.ReLU()),
        nn.Identity(),
    ]
    chosen = draw.sample(sides, draw.randint(1, 3))
    layers: list[nn.Module] = [stem, Branches(*chosen)]
    wide *= len(chosen)
    layers += draw.choice(
        (
            [nn.ConvTranspose2d(wide, 8, 2, 2), draw.choice(ACTIVATIONS)(), nn.Conv2d(8, wide, 3)],
            [nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(wide, wide, 3)],
            [nn.MaxPool2d(3, 2, 1), nn.BatchNorm2d(wide)],
            [nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(wide, wide, 3, stride=2)],
            [],
        )
    )
    if draw.random() < 0.7:
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, draw.choice(WIDTHS))]
    return nn.Sequential(*layers), (first, size, size)


def _recurrent(draw: Random) -> Drawn:
    """An LSTM or a GRU."""
    first, wide, both = draw.choice((1, 3, 8, 16)), draw.choice((4, 8, 17)), draw.random() < 0.3
    cell = draw.choice((nn.LSTM, nn.GRU))(
        first, wide, draw.choice((1, 1, 2)), bidirectional=both, batch_first=True,
        bias=draw.random() < 0.8,
    )  # fmt: skip
    out = nn.Linear(wide * (2 if both else 1), draw.choice(WIDTHS))
    return Steps(cell, out, last=draw.random() < 0.5), (draw.choice((1, 2, 5, 9)), first)


def _attending(draw: Random) -> Drawn:
    """Layers of a transformer."""
    heads = draw.choice((1, 2, 4))
    wide = heads * draw.choice((4, 8))
    layers: list[nn.Module] = [
        nn.TransformerEncoderLayer(
            wide, heads, draw.choice((8, 24)), activation=draw.choice(("relu", "gelu")),
            batch_first=True, norm_first=draw.random() < 0.5,
        )
        for _ in range(draw.choice((1, 1, 2)))
    ]  # fmt: skip
    if draw.random() < 0.5:
        layers += [nn.LayerNorm(wide), nn.Linear(wide, draw.choice(WIDTHS))]
    return nn.Sequential(*layers), (draw.choice((1, 2, 5, 9)), wide)


def _block(draw: Random, channels: int) -> tuple[list[nn.Module], int]:
    out, taps = draw.choice((1, 3, 8, 16, 32)), draw.choice((1, 3, 3, 5))
    groups = draw.choice(
        [number for number in (1, 1, 1, 2, channels) if channels % number == out % number == 0]
    )
    convolution = nn.Conv2d(
        channels, out, taps, stride=draw.choice((1, 1, 2)), padding=draw.choice((taps // 2, taps // 2, 0, 1)) if taps > 1 else 0,
        groups=groups, bias=draw.random() < 0.7, dilation=draw.choice((1, 1, 1, 2)) if taps == 3 else 1,
    )  # fmt: skip
    layers: list[nn.Module] = [convolution]
    layers += [nn.BatchNorm2d(out)] * (draw.random() < 0.3)
    layers += [draw.choice(ACTIVATIONS)()] * (draw.random() < 0.8)
    return layers, out


def _keeps_size(layer: nn.Module) -> bool:
    return bool(layer(torch.zeros(1, layer.in_channels, 9, 9)).shape[-1] == 9)  # type: ignore[arg-type]
