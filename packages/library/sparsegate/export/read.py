"""Reads a captured model as a list of layers, for code that runs without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

import sparsegate.graph as graph_room
from sparsegate.graph import (
    AdaptivePool,
    Graph,
    Input,
    Node,
    Norm,
    Other,
    Pointwise,
    Reshape,
    capture,
    copied,
    removed_from,
)

from .layer import ConvLayer, Layer, LinearLayer, Pair, PoolLayer, scaled, unit_wise

Reader: TypeAlias = Callable[[Any, list[Layer]], list[Layer]]
"""A rule: the layers so far, extended by an operation."""

MAX_TILE = 3  # the positions of a tile are held in registers


@dataclass(frozen=True, eq=False)
class LayerList:
    """A chain of layers, in double precision."""

    layers: list[Layer]
    image: tuple[int, ...]
    """The shape of one image."""
    outputs: tuple[int, ...]
    """The shape of the outputs for one image."""


@torch.no_grad()
def read_network(model: nn.Module, example: Tensor) -> LayerList:
    """The layers of a chain of operations in eval, without dead paths.

    >>> network = read_network(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(1, 4))
    >>> [type(layer).__name__ for layer in network.layers], network.image, network.outputs
    (['LinearLayer'], (4,), (3,))

    Raises:
        ValueError: an operation cannot be exported, a weight is not finite, or the example does
            not fit.

    """
    _check_example(example)
    model = copied(model).float().cpu().eval()
    check_finite(model)
    graph = capture(model, example)
    _check_is_chain(graph)
    removed_from(graph, example)
    model.double()
    layers: list[Layer] = []
    for node in graph.nodes[1:]:
        layers = _reader(node)(node, layers)
    channels = example.shape[1]
    layers = layers or [_same(channels)]
    outputs = _checked_outputs(model, layers, example.double())
    return LayerList(layers, tuple(example.shape[1:]), tuple(outputs.shape[1:]))


def as_images(value: Tensor) -> Tensor:
    """A batch of features as images of one pixel."""
    return value if value.ndim == 4 else value[:, :, None, None]


def _check_example(example: Tensor) -> None:
    if not example.isfinite().all():
        raise ValueError(
            "example has values that are infinite or NaN; pass images as the network will see them"
        )
    if example.ndim not in (2, 4) or not example.is_floating_point() or not len(example):
        raise ValueError(
            "example is a batch of at least one image or vector, in floats: image x channel x "
            f"height x width or image x feature; got {example.dtype} of shape "
            f"{tuple(example.shape)}"
        )


def check_finite(model: nn.Module) -> None:
    """Raises ValueError if a tensor of a model has values that are infinite or NaN."""
    for name, value in model.state_dict().items():
        if not value.isfinite().all():
            raise ValueError(
                f"{name} has values that are infinite or NaN; only finite ones can be exported"
            )


def _check_is_chain(graph: Graph) -> None:
    for before, node in pairwise(graph.nodes):
        if isinstance(node, Input):
            raise ValueError("only networks with one input can be exported, got several")
        if set(node.inputs) != {before}:
            raise ValueError(
                f"only chains of operations can be exported, and {node.name} reads something else "
                "than the one before it"
            )
    if graph.outputs != (graph.nodes[-1],):
        raise ValueError("only networks with one output, the last result, can be exported")


def _checked_outputs(model: nn.Module, layers: list[Layer], example: Tensor) -> Tensor:
    """What the model makes of the example, if its layers make the same."""
    value = as_images(example)
    for layer in layers:
        value = layer.run(value)
    wanted: Tensor = model(example)
    tolerance = 1e-6 * float(1 + wanted.abs().max())
    if not torch.allclose(value.flatten(1), wanted.flatten(1), rtol=1e-6, atol=tolerance):
        raise ValueError(
            f"{type(model).__name__} computes something else than its captured operations; its "
            "outputs must depend on its inputs and weights alone"
        )
    return wanted


def _reader(node: Node) -> Reader:
    for kind, reader in READERS.items():
        if isinstance(node, kind):
            return reader
    return _refuse


def _refuse(node: Node, layers: list[Layer]) -> list[Layer]:  # noqa: ARG001
    function = node.function if isinstance(node, Other | Pointwise) else type(node).__name__
    if function == "dropout":
        raise ValueError(
            f"{node.name} is a dropout that is active in eval mode, which cannot be exported"
        )
    if function == "batch_norm":
        raise ValueError(
            f"{node.path} has no running statistics, so it depends on the batch, which cannot be "
            "exported"
        )
    raise ValueError(
        f"{function} ({node.path or node.name}) cannot be exported; what can: Conv2d, Linear, "
        "ReLU, max and average pooling, BatchNorm, flatten, dropout, identity"
    )


def _channels_before(node: Node) -> int:
    """Channels of the images that a node reads, flattened or not; features are channels too."""
    before = node.input
    while isinstance(before, Reshape):
        before = before.input
    return before.shape[1]


def _same(channels: int) -> ConvLayer:
    """A layer that returns its input."""
    return unit_wise(torch.ones(channels).double(), torch.zeros(channels).double())


def _weight_and_bias(node: graph_room.Conv | graph_room.Linear) -> tuple[Tensor, Tensor]:
    weight = node.weight.read().detach()
    bias = weight.new_zeros(len(weight)) if node.bias is None else node.bias.read().detach()
    return weight, bias


def _conv(node: graph_room.Conv, layers: list[Layer]) -> list[Layer]:
    if len(node.stride) != 2:
        return _refuse(node, layers)
    if node.even_padding is None:
        raise ValueError(f"{node.path} pads one side more than the other, which cannot be exported")
    made = ConvLayer(
        *_weight_and_bias(node),
        stride=_pair(node.stride),
        padding=_pair(node.even_padding),
        dilation=_pair(node.dilation),
        groups=node.groups,
    )
    return [*layers, made]


def _pair(value: tuple[int, ...]) -> Pair:
    return value[0], value[1]


def _linear(node: graph_room.Linear, layers: list[Layer]) -> list[Layer]:
    if len(node.shape) != 2:
        raise ValueError(
            f"{node.path} reads {len(node.shape)} dimensions; flatten what it reads to two"
        )
    return [*layers, LinearLayer(*_weight_and_bias(node))]


def _pad(node: graph_room.Pad, layers: list[Layer]) -> list[Layer]:  # noqa: ARG001
    raise ValueError(
        f"{node.path or node.name} pads with {node.mode!r}, which cannot be exported; pad with "
        "zeros, in the convolution"
    )


def _norm(node: Norm, layers: list[Layer]) -> list[Layer]:
    scale, shift = node.scale_and_shift()
    if len(scale) != _channels_before(node):
        raise ValueError(
            f"{node.path} normalizes {len(scale)} positions of flattened images, each by itself, "
            "which cannot be exported; put a norm of channels before the flattening"
        )
    last = layers[-1] if layers else None
    if (
        isinstance(last, ConvLayer | LinearLayer)
        and not last.relu
        and getattr(last, "tile", 1) == 1
    ):
        return [*layers[:-1], scaled(last, scale, shift)]
    return [*layers, unit_wise(scale, shift)]


def _pointwise(node: Pointwise, layers: list[Layer]) -> list[Layer]:
    if node.function != "relu":
        return _refuse(node, layers)
    layers = layers or [_same(_channels_before(node))]
    return [*layers[:-1], replace(layers[-1], relu=True)]


def _pool(node: graph_room.Pool, layers: list[Layer]) -> list[Layer]:
    if len(node.kernel) != 2:
        return _refuse(node, layers)
    if node.divisor:
        raise ValueError(f"{node.name} overrides the divisor of the mean, which cannot be exported")
    pool = PoolLayer(
        node.kind,
        kernel=_pair(node.kernel),
        stride=_pair(node.stride),
        padding=_pair(node.padding),
        dilation=_pair(node.dilation),
        ceil_mode=node.ceil_mode,
        counts_padding=node.counts_padding,
    )
    last = layers[-1] if layers else None
    if isinstance(last, ConvLayer) and last.tile == 1 and _is_tiled(pool):
        # Rectifying before or after is the same.
        return [*layers[:-1], replace(last, tile=pool.kernel[0])]
    return [*layers, pool]


def _is_tiled(pool: PoolLayer) -> bool:
    """Whether a maximum is over square windows, next to each other."""
    square = pool.kernel == pool.stride and pool.kernel[0] == pool.kernel[1] > 1
    plain = pool.padding == (0, 0) and pool.dilation == (1, 1) and not pool.ceil_mode
    return pool.kind == "max" and pool.kernel[0] <= MAX_TILE and square and plain


def _adaptive_pool(node: AdaptivePool, layers: list[Layer]) -> list[Layer]:
    before, after = node.input.shape[2:], node.shape[2:]
    if node.dimensions != 2:
        return _refuse(node, layers)
    if any(one % other for one, other in zip(before, after, strict=True)):
        raise ValueError(
            f"{node.name} makes {after} of {before} with windows of unequal size; use equal ones"
        )
    kernel = (before[0] // after[0], before[1] // after[1])
    return [*layers, PoolLayer(node.kind, kernel, kernel)]


def _flat(node: Reshape, layers: list[Layer]) -> list[Layer]:
    before, after = node.input.shape, node.shape
    if after != (before[0], prod(before[1:])):
        raise ValueError(
            f"{node.name} makes {after} of {before}; only flattening to two dimensions can be "
            "exported"
        )
    return layers


READERS: dict[type[Node], Reader] = {
    graph_room.Conv: _conv,
    graph_room.Linear: _linear,
    graph_room.Pool: _pool,
    graph_room.Pad: _pad,
    Norm: _norm,
    Pointwise: _pointwise,
    AdaptivePool: _adaptive_pool,
    Reshape: _flat,
}
