"""The attack on fast networks: drawn ones equal float64, whatever else is in the batch."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

import sparsegate as sg

from .attack import FAULT, Attack

TOLERANCE = 1e-4
"""Largest difference from float64, relative to the largest output of the image."""
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
KERNELS = (None, "chain", "csr", "dense", "packed", "winograd", "winograd8")
HOSTILE = ("nan", "one nan", "inf", "-inf", "1e38", "large")


class Residual(nn.Module):
    """Adds its input to what a layer makes of it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum."""
        total: Tensor = inputs + self.inner(inputs)
        return total


class Networks(Attack):
    """Draws a network, its sparsity, its batch and the kernel.

    Compares with float64 and with itself.
    """

    title = "drawn networks against float64, with hostile neighbors in the batch"
    share = 4.0
    patience = 120.0

    def prepare(self, folder: Path) -> None:
        """One thread: networks are small."""
        torch.set_num_threads(1)

    @torch.no_grad()
    def attempt(self, draw: Random) -> str:
        """Runs a network on a harmless batch and on one with hostile images."""
        torch.manual_seed(draw.randrange(2**31))
        model, shape = drawn_model(draw)
        sparsify_(model, draw)
        count = draw.choice((1, 2, 3, 4, 5, 7, 8, 16, 17, 33))
        images = torch.randn(count, *shape)
        try:
            fast = sg.sparse(copy.deepcopy(model), images, kernel=draw.choice(KERNELS))
        except ValueError as error:
            return "refused" if str(error) else f"{FAULT}an error without words"
        got = fast(images)
        wanted = copy.deepcopy(model).double()(images.double())
        if got.shape != wanted.shape:
            return f"{FAULT}shape {tuple(got.shape)} for {tuple(wanted.shape)}"
        if (off := distance(got, wanted)) > TOLERANCE:
            return (
                f"{FAULT}differs from float64 by more than {TOLERANCE}"
                if off < 1
                else f"{FAULT}differs from float64 altogether"
            )
        changed, others = with_hostile(images, draw)
        if not others:
            return "right"
        again = fast(changed)[others]
        if not torch.equal(bits(again), bits(got[others])):
            return f"{FAULT}hostile images changed others of their batch"
        return "right, also with hostile neighbors"


def drawn_model(draw: Random) -> tuple[nn.Module, tuple[int, ...]]:
    """A network in eval mode and the shape of an image."""
    model, shape = _convolutional(draw) if draw.random() < 0.6 else _linear(draw)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            layer.running_mean.normal_()  # type: ignore[union-attr]
            layer.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return model.eval(), shape


def _linear(draw: Random) -> tuple[nn.Module, tuple[int, ...]]:
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


def _convolutional(draw: Random) -> tuple[nn.Module, tuple[int, ...]]:
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


@torch.no_grad()
def sparsify_(model: nn.Module, draw: Random) -> None:
    """Zeros in every weight, in place."""
    for each in model.parameters():
        if each.ndim > 1:
            each.mul_(torch.rand(each.shape) >= draw.choice((0.0, 0.5, 0.9, 0.99, 1.0)))


def with_hostile(images: Tensor, draw: Random) -> tuple[Tensor, list[int]]:
    """The batch with some images spoilt, and the indices of the others."""
    changed, count = images.clone(), len(images)
    bad = draw.sample(range(count), draw.randint(1, min(3, count)))
    for index in bad:
        kind = draw.choice(HOSTILE)
        if kind == "large":
            changed[index] *= 1e5
        elif kind == "one nan":
            changed[index].view(-1)[draw.randrange(changed[index].numel())] = float("nan")
        else:
            changed[index] = float(kind)
    return changed, [index for index in range(count) if index not in bad]


def distance(got: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest output of the image."""
    off = (got.double() - wanted).abs().flatten(1).amax(1)
    return float((off / wanted.abs().flatten(1).amax(1).clamp_min(1e-3)).max())


def bits(tensor: Tensor) -> Tensor:
    """The bits, by which NaN equals itself."""
    return tensor.contiguous().view(torch.int32)
