"""Layers and images that hypothesis draws, and small models with zeros."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from sparsegate.runtime import ChainLayer

SIZES = (
    1,
    2,
    3,
    5,
    8,
    9,
    13,
    16,
    29,
    34,
)  # of images: outputs of at most eight are narrow, tiles have six or 28
SPARSITIES = (0.0, 0.3, 0.5, 0.9, 0.99, 1.0)


def values(shape: tuple[int, ...], seed: int, whole: bool) -> Tensor:
    """Normal numbers, or small whole ones, whose sums are exact."""
    made = torch.Generator().manual_seed(seed)
    return (
        torch.randint(-2, 3, shape, generator=made).float()
        if whole
        else torch.randn(shape, generator=made)
    )


def kept(shape: tuple[int, ...], seed: int, sparsity: float, empty_rows: bool) -> Tensor:
    """Which weights are left: a random part, of some rows or of all."""
    made = torch.Generator().manual_seed(seed)
    left = torch.rand(shape, generator=made) >= sparsity
    rows = torch.rand((shape[0], *(1 for _ in shape[1:])), generator=made) >= 0.5 * empty_rows
    return left & rows


@st.composite
def weights(draw: st.DrawFn, shape: tuple[int, ...], whole: bool) -> tuple[Tensor, Tensor | None]:
    seed, sparsity = draw(st.integers(0, 999)), draw(st.sampled_from(SPARSITIES))
    weight = values(shape, seed, whole) * kept(shape, seed + 1, sparsity, draw(st.booleans()))
    return weight, values(shape[:1], seed + 2, whole) if draw(st.booleans()) else None


@st.composite
def linears(draw: st.DrawFn, features: int | None = None, whole: bool = False) -> ChainLayer:
    columns = features or draw(st.sampled_from((1, 2, 15, 16, 17, 40, 300)))
    weight, bias = draw(weights((draw(st.sampled_from((1, 2, 8, 16, 17, 33))), columns), whole))
    return ChainLayer(weight, bias, (columns, 1, 1), relu=draw(st.booleans()))


@st.composite
def convolutions(
    draw: st.DrawFn, in_shape: tuple[int, int, int] | None = None, whole: bool = False
) -> ChainLayer:
    """Any convolution with any pooling that fits into the input."""
    sizes = st.sampled_from(SIZES)
    channels, *size = in_shape or (draw(st.integers(1, 6)), draw(sizes), draw(sizes))
    groups = draw(st.sampled_from([each for each in (1, 2, 3) if channels % each == 0]))
    padding, dilation, stride, taps = ([], [], [], [])
    for each in size:
        padding.append(draw(st.integers(0, 3)))
        dilation.append(draw(st.integers(1, 3)))
        stride.append(draw(st.integers(1, 3)))
        taps.append(draw(st.integers(1, min(5, (each + 2 * padding[-1] - 1) // dilation[-1] + 1))))
    shape = (groups * draw(st.integers(1, 4)), channels // groups, *taps)
    weight, bias = draw(weights(shape, whole))
    settings = (tuple(stride), tuple(padding), tuple(dilation), groups)
    plain = ChainLayer(weight, bias, (channels, *size), *settings)
    pool = draw(st.integers(1, min(4, *plain.conv_shape)))
    return ChainLayer(
        weight,
        bias,
        (channels, *size),
        *settings,
        pool,
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )


@st.composite
def chains(draw: st.DrawFn, whole: bool = False) -> list[ChainLayer]:
    """Up to two convolutions and up to three linear layers, at least one of either."""
    num_convolutions, num_linears = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    made: list[ChainLayer] = []
    for _ in range(num_convolutions):
        made.append(draw(convolutions(made[-1].out_shape if made else None, whole)))
    for _ in range(num_linears if made else max(num_linears, 1)):
        features = torch.Size(made[-1].out_shape).numel() if made else None
        made.append(draw(linears(features, whole)))
    return made


@pytest.fixture(scope="session")
def drawn() -> dict[str, Callable[..., st.SearchStrategy]]:
    """Strategies by name: a linear layer, a convolution, a chain of both.

    With `whole` their sums are exact.
    """
    return {"linear": linears, "convolution": convolutions, "chain": chains}


@pytest.fixture(scope="session")
def images() -> Callable[..., Tensor]:
    """So many images of a layer's input shape."""

    def made(layer: ChainLayer, count: int, *, seed: int = 0, whole: bool = False) -> Tensor:
        return values((count, *layer.in_shape), seed, whole)

    return made


@pytest.fixture(scope="session")
def sparsified() -> Callable[..., nn.Module]:
    """The model itself, with most of the weights of its linear and convolutional layers zero."""

    def zeroed(model: nn.Module, sparsity: float = 0.8, seed: int = 0) -> nn.Module:
        made = torch.Generator().manual_seed(seed)
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                with torch.no_grad():
                    module.weight *= torch.rand(module.weight.shape, generator=made) >= sparsity
        return model.eval()

    return zeroed


class Written(nn.Module):
    """Modules, and a function that says what a forward pass does with them."""

    def __init__(self, way: Callable[..., Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.way = way
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


@pytest.fixture(scope="session")
def written(sparsified: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A sparse model of these modules with this forward pass."""

    def made(way: Callable[..., Tensor], **modules: nn.Module) -> nn.Module:
        return sparsified(Written(way, **modules))

    return made
