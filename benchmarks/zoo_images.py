"""Networks for images: residual, mobile, dense, with skips and with transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = Callable[[], nn.Module]


def conv(
    ins: int, outs: int, taps: int = 3, stride: int = 1, groups: int = 1, act: Activation = nn.ReLU
) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, a norm and an activation."""
    layer = nn.Conv2d(ins, outs, taps, stride, taps // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outs), act())


def ended(features: list[nn.Module], width: int, classes: int = 1000) -> nn.Sequential:
    """Layers for images with a mean over places and a classifier."""
    return nn.Sequential(
        *features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)
    )


class Plus(nn.Module):
    """Branches whose results are added, and an activation of the sum."""

    def __init__(self, *branches: nn.Module, act: Activation = nn.Identity) -> None:
        super().__init__()
        self.branches, self.act = nn.ModuleList(branches), act()

    def forward(self, x: Tensor) -> Tensor:
        first, *others = (branch(x) for branch in self.branches)
        return self.act(sum(others, first))


def shortcut(ins: int, outs: int, stride: int) -> nn.Module:
    """The input itself, or a projection to another size."""
    if ins == outs and stride == 1:
        return nn.Identity()
    return conv(ins, outs, 1, stride, act=nn.Identity)


def residual(*, deep: bool) -> nn.Sequential:
    """ResNet-18 with blocks of two convolutions, or ResNet-50 with bottlenecks of three."""
    ins, layers = 64, [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate((3, 4, 6, 3) if deep else (2, 2, 2, 2)):
        width = 64 << stage
        outs = 4 * width if deep else width
        for index in range(count):
            stride = 2 if stage and not index else 1
            if deep:
                parts = [conv(ins, width, 1), conv(width, width, 3, stride)]
            else:
                parts = [conv(ins, width, 3, stride)]
            last = conv(width, outs, 1 if deep else 3, act=nn.Identity)
            layers.append(
                Plus(nn.Sequential(*parts, last), shortcut(ins, outs, stride), act=nn.ReLU)
            )
            ins = outs
    return ended(layers, ins)


class Excite(nn.Module):
    """Weighs channels by what their means say."""

    def __init__(self, width: int, inner: int, gate: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.down, self.up, self.gate = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1), gate

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


def mobile(
    rows: list[tuple[int, int, int, int, int]],
    stem: int,
    head: int,
    act: Activation,
    gate: Callable[[Tensor], Tensor] | None = None,
) -> nn.Sequential:
    """Inverted bottlenecks.

    A row is how often, by how much wider, to what, taps and first stride.
    """
    ins, layers = stem, [conv(3, stem, 3, 2, act=act)]
    for count, wider, outs, taps, first in rows:
        for index in range(count):
            stride, wide = first if not index else 1, wider * ins
            parts = [conv(ins, wide, 1, act=act)] if wider > 1 else []
            parts.append(conv(wide, wide, taps, stride, wide, act))
            if gate is not None:
                parts.append(Excite(wide, max(8, ins // 4), gate))
            parts.append(conv(wide, outs, 1, act=nn.Identity))
            whole = nn.Sequential(*parts)
            layers.append(Plus(nn.Identity(), whole) if stride == 1 and ins == outs else whole)
            ins = outs
    return ended([*layers, conv(ins, head, 1, act=act)], head)


def mobile_v2() -> nn.Sequential:
    """MobileNetV2's shapes."""
    rows = [
        *((1, 1, 16, 3, 1), (2, 6, 24, 3, 2), (3, 6, 32, 3, 2), (4, 6, 64, 3, 2)),
        *((3, 6, 96, 3, 1), (3, 6, 160, 3, 2), (1, 6, 320, 3, 1)),
    ]
    return mobile(rows, 32, 1280, nn.ReLU6)


def mobile_v3() -> nn.Sequential:
    """Of MobileNetV3's kind: hard activations, gates on channels, larger kernels."""
    rows = [(1, 1, 16, 3, 2), (2, 4, 24, 3, 2), (3, 4, 40, 5, 2), (2, 6, 48, 5, 1)]
    return mobile([*rows, (3, 6, 96, 5, 2)], 16, 576, nn.Hardswish, F.hardsigmoid)


def efficient() -> nn.Sequential:
    """EfficientNet-B0's shapes."""
    rows = [
        *((1, 1, 16, 3, 1), (2, 6, 24, 3, 2), (2, 6, 40, 5, 2), (3, 6, 80, 3, 2)),
        *((3, 6, 112, 5, 1), (4, 6, 192, 5, 2), (1, 6, 320, 3, 1)),
    ]
    return mobile(rows, 32, 1280, nn.SiLU, torch.sigmoid)


class Dense(nn.Module):
    """A DenseNet's block: every layer reads what all before it gave."""

    def __init__(self, ins: int, count: int, grow: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(ins + grow * index),
                nn.ReLU(),
                conv(ins + grow * index, 4 * grow, 1),
                nn.Conv2d(4 * grow, grow, 3, 1, 1),
            )
            for index in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def dense_net() -> nn.Sequential:
    """A DenseNet of four blocks."""
    ins, layers = 64, [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for count in (4, 8, 12, 8):
        layers += [Dense(ins, count, 32), conv(ins + 32 * count, (ins + 32 * count) // 2, 1)]
        layers.append(nn.AvgPool2d(2))
        ins = (ins + 32 * count) // 2
    return ended(layers[:-1], ins)


class UNet(nn.Module):
    """Down four times and up again, with what came on the way down beside it."""

    def __init__(self, width: int = 32, *, transposed: bool = True) -> None:
        super().__init__()
        sizes = [width << level for level in range(4)]
        pairs = zip([3, *sizes[:-1]], sizes, strict=True)
        self.down = nn.ModuleList(nn.Sequential(conv(a, b), conv(b, b)) for a, b in pairs)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * size, size, 2, 2)
            if transposed
            else nn.Sequential(nn.Upsample(scale_factor=2), conv(2 * size, size))
            for size in reversed(sizes[:-1])
        )
        self.join = nn.ModuleList(conv(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat([up(x), beside], 1))
        return self.head(x)
