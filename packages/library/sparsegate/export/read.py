"""Reads a network: from a module, through torch.fx, to a list of layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from sparsegate.graph import (
    copied,
    is_hooked,
    module_of,
    operation,
    reads_shape,
    remove_dead_paths,
    trace,
)

from .layer import Conv, Layer, Linear, Pair, Pool, scaled, unit_wise
from .norm import scale_and_shift

Reader: TypeAlias = Callable[[fx.Node, list[Layer]], list[Layer]]
"""The layers so far, with an operation more."""

MAX_TILE = 3  # the places of a tile are held in registers


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of layers, in double precision."""

    layers: list[Layer]
    image: tuple[int, ...]
    """The shape of one image."""
    outputs: tuple[int, ...]
    """The shape of what is made of it."""


@torch.no_grad()
def read_network(model: nn.Module, example: Tensor) -> Network:
    """The layers of a chain of operations in eval, without dead paths.

    >>> network = read_network(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(1, 4))
    >>> [type(layer).__name__ for layer in network.layers], network.image, network.outputs
    (['Linear'], (4,), (3,))
    """
    _check_example(example)
    model = copied(model).float().cpu().eval()
    model = nn.Sequential(model) if type(model) in READERS else model  # torch.fx would look inside
    _check_finite(model)
    graph = trace(model, example)  # also says what is wrong with the example
    _check_is_chain(graph)
    remove_dead_paths(model, example)
    model.double()
    layers: list[Layer] = []
    for node in graph.nodes:
        if node.op in ("call_module", "call_function", "call_method") and not _is_number(node):
            layers = _reader(node)(node, layers)
    layers = layers or [
        unit_wise(torch.ones(example.shape[1]).double(), torch.zeros(example.shape[1]).double())
    ]
    outputs = _checked_outputs(model, layers, example.double())
    return Network(layers, tuple(example.shape[1:]), tuple(outputs.shape[1:]))


def as_images(value: Tensor) -> Tensor:
    """A batch of features as images of one place."""
    return value if value.ndim == 4 else value[:, :, None, None]


def _check_example(example: Tensor) -> None:
    if not example.isfinite().all():
        raise ValueError(
            "example has values that are infinite or no numbers; pass images as the network will see them"
        )
    if example.ndim not in (2, 4) or not example.is_floating_point() or not len(example):
        raise ValueError(
            "example is a batch of at least one image or vector, in floats: image x channel x height x width or "
            f"image x feature; got {example.dtype} of shape {tuple(example.shape)}"
        )


def _check_finite(model: nn.Module) -> None:
    for name, value in model.state_dict().items():
        if not value.isfinite().all():
            raise ValueError(
                f"{name} has values that are infinite or no numbers; only finite ones can be exported"
            )


def _check_is_chain(graph: fx.Graph) -> None:
    if sum(node.op == "placeholder" for node in graph.nodes) != 1:
        raise ValueError("only networks with one input can be exported, got several")
    before: fx.Node | None = None
    for node in graph.nodes:
        if _is_number(node):
            continue
        tensors = [each for each in node.all_input_nodes if "shape" in each.meta]
        if before is not None and tensors != [before]:
            raise ValueError(
                f"only chains of operations can be exported, and {node.name} does not read just the one before it"
            )
        before = node


def _is_number(node: fx.Node) -> bool:
    """Whether a node computes with sizes, such as `x.shape[0]`."""
    return reads_shape(node) or (node.op != "output" and "shape" not in node.meta)


def _checked_outputs(model: nn.Module, layers: list[Layer], example: Tensor) -> Tensor:
    """What the model makes of the example, if its layers make the same."""
    value = as_images(example)
    for layer in layers:
        value = layer.run(value)
    wanted: Tensor = model(example)
    if not torch.allclose(
        value.flatten(1), wanted.flatten(1), rtol=1e-6, atol=1e-6 * float(1 + wanted.abs().max())
    ):
        raise ValueError(
            f"{type(model).__name__} computes something else than its operations as torch.fx sees them; "
            "its forward must not depend on the values of its input, or be changed by hooks"
        )
    return wanted


def _reader(node: fx.Node) -> Reader:
    kind = operation(node)
    if is_hooked(node):
        raise ValueError(f"{node.target} has hooks, which cannot be exported; remove them first")
    if kind not in READERS:
        name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
        raise ValueError(
            f"{name} ({node.name}) cannot be exported; what can: Conv2d, Linear, ReLU, max and average pooling, "
            "BatchNorm, flatten, dropout, identity"
        )
    return READERS[kind]


def _shape_before(node: fx.Node) -> tuple[int, ...]:
    shape: tuple[int, ...] = node.all_input_nodes[0].meta["shape"]
    return shape


def _channels_before(node: fx.Node) -> int:
    """Channels of the images that a node reads, flattened or not; features are channels of one place."""
    before = node.all_input_nodes[0]
    while before.op != "placeholder" and READERS.get(operation(before)) in (_flat, _nothing):
        before = before.all_input_nodes[0]
    channels: int = before.meta["shape"][1]
    return channels


def _pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[-1]))


def _conv(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    conv: Any = module_of(node)
    if conv.padding_mode != "zeros":
        raise ValueError(
            f"{node.target} pads with {conv.padding_mode!r}, which cannot be exported; pad with zeros"
        )
    bias = conv.bias if conv.bias is not None else conv.weight.new_zeros(len(conv.weight))
    settings = (_pair(conv.stride), _padding(node, conv), _pair(conv.dilation), conv.groups)
    return [*layers, Conv(conv.weight.detach(), bias.detach(), *settings)]


def _padding(node: fx.Node, conv: Any) -> Pair:
    if not isinstance(conv.padding, str):
        return _pair(conv.padding)
    across = [step * (size - 1) for step, size in zip(conv.dilation, conv.kernel_size, strict=True)]
    if conv.padding == "valid":
        return (0, 0)
    if any(each % 2 for each in across):
        raise ValueError(
            f"{node.target} pads one side more than the other, which cannot be exported"
        )
    return across[0] // 2, across[1] // 2


def _linear(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    linear: Any = module_of(node)
    if len(_shape_before(node)) != 2:
        raise ValueError(
            f"{node.target} reads {len(_shape_before(node))} dimensions; flatten what it reads to two"
        )
    bias = linear.bias if linear.bias is not None else linear.weight.new_zeros(len(linear.weight))
    return [*layers, Linear(linear.weight.detach(), bias.detach())]


def _norm(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    norm: Any = module_of(node)
    if norm.running_mean is None:
        raise ValueError(
            f"{node.target} has no running statistics, so it depends on the batch; it cannot be written"
        )
    scale, shift = scale_and_shift(norm)
    if len(scale) != _channels_before(node):
        raise ValueError(
            f"{node.target} norms {len(scale)} places of flattened images, each by itself, which cannot be exported; "
            "put a norm of channels before the flattening"
        )
    last = layers[-1] if layers else None
    if isinstance(last, Conv | Linear) and not last.relu and getattr(last, "tile", 1) == 1:
        return [*layers[:-1], scaled(last, scale, shift)]
    return [*layers, unit_wise(scale, shift)]


def _relu(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    channels = _channels_before(node)
    layers = layers or [unit_wise(torch.ones(channels).double(), torch.zeros(channels).double())]
    return [*layers[:-1], replace(layers[-1], relu=True)]


def _max_pool(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    words = _settings(
        node, ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    )
    kernel = _pair(words["kernel_size"])
    stride, padding = _pair(words.get("stride") or kernel), _pair(words.get("padding", 0))
    pool = Pool(
        "max",
        kernel,
        stride,
        padding,
        _pair(words.get("dilation", 1)),
        bool(words.get("ceil_mode")),
    )
    last = layers[-1] if layers else None
    if isinstance(last, Conv) and last.tile == 1 and _is_tiled(pool):
        return [
            *layers[:-1],
            replace(last, tile=kernel[0]),
        ]  # rectifying before or after is the same
    return [*layers, pool]


def _is_tiled(pool: Pool) -> bool:
    """Whether the windows are square, and stand side by side."""
    square = pool.kernel == pool.stride and pool.kernel[0] == pool.kernel[1] > 1
    return (
        pool.kernel[0] <= MAX_TILE
        and square
        and pool.padding == (0, 0)
        and pool.dilation == (1, 1)
        and not pool.ceil_mode
    )


def _mean_pool(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    names = (
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
        "divisor_override",
    )
    words = _settings(node, names)
    if words.get("divisor_override"):
        raise ValueError(f"{node.name} overrides the divisor of the mean, which cannot be exported")
    kernel = _pair(words["kernel_size"])
    stride, padding = _pair(words.get("stride") or kernel), _pair(words.get("padding", 0))
    counts = bool(words.get("count_include_pad", True))
    return [
        *layers,
        Pool("mean", kernel, stride, padding, (1, 1), bool(words.get("ceil_mode")), counts),
    ]


def _adaptive(kind: str) -> Reader:
    def read(node: fx.Node, layers: list[Layer]) -> list[Layer]:
        before, after = _shape_before(node)[2:], node.meta["shape"][2:]
        if any(one % other for one, other in zip(before, after, strict=True)):
            raise ValueError(
                f"{node.name} makes {after} of {before} with windows of unequal size; use equal ones"
            )
        kernel = (before[0] // after[0], before[1] // after[1])
        return [*layers, Pool(kind, kernel, kernel)]

    return read


def _settings(node: fx.Node, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a pooling, whether a module or a function."""
    if node.op == "call_module":
        module = module_of(node)
        return {name: getattr(module, name) for name in names if hasattr(module, name)}
    return {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}


def _flat(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    before, after = _shape_before(node), node.meta["shape"]
    if after not in (before, (before[0], prod(before[1:]))):
        raise ValueError(
            f"{node.name} makes {after} of {before}; only flattening to two dimensions can be written"
        )
    return layers


def _nothing(node: fx.Node, layers: list[Layer]) -> list[Layer]:
    if node.kwargs.get("training") or (node.op == "call_function" and True in node.args[2:3]):
        raise ValueError(f"{node.name} drops in eval as well, which cannot be exported")
    return layers


READERS: dict[object, Reader] = {
    nn.Conv2d: _conv,
    nn.Linear: _linear,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), _norm),
    **dict.fromkeys((nn.ReLU, F.relu, torch.relu, torch.relu_, "relu", "relu_"), _relu),
    **dict.fromkeys((nn.MaxPool2d, F.max_pool2d, torch.max_pool2d), _max_pool),
    **dict.fromkeys((nn.AvgPool2d, F.avg_pool2d), _mean_pool),
    **dict.fromkeys((nn.AdaptiveMaxPool2d, F.adaptive_max_pool2d), _adaptive("max")),
    **dict.fromkeys((nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d), _adaptive("mean")),
    **dict.fromkeys(
        (nn.Flatten, torch.flatten, torch.reshape, "flatten", "view", "reshape"), _flat
    ),
    **dict.fromkeys(
        (nn.Identity, nn.Dropout, nn.Dropout2d, F.dropout, F.dropout2d, "contiguous"), _nothing
    ),
}
