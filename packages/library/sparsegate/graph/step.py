"""Steps: the operations that keep a layer's units apart, as torch.fx finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

Norm: TypeAlias = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

# Each with the number of dimensions it pools over.
POOLS: dict[object, int] = {
    getattr(home, f"{kind}{size}d"): size
    for home, kinds in (
        (nn, ("MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool")),
        (F, ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")),
    )
    for kind in kinds
    for size in (1, 2, 3)
}
ELEMENTWISE: set[object] = {
    *(
        nn.ReLU,
        nn.ReLU6,
        nn.LeakyReLU,
        nn.ELU,
        nn.SELU,
        nn.CELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
        nn.Sigmoid,
        nn.Tanh,
    ),
    *(
        nn.Softplus,
        nn.Softsign,
        nn.LogSigmoid,
        nn.Hardtanh,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.Hardshrink,
        nn.Softshrink,
    ),
    *(
        nn.Tanhshrink,
        nn.Threshold,
        nn.Identity,
        nn.Dropout,
        nn.Dropout1d,
        nn.Dropout2d,
        nn.Dropout3d,
        nn.AlphaDropout,
    ),
    *(
        F.relu,
        F.relu6,
        F.leaky_relu,
        F.elu,
        F.selu,
        F.celu,
        F.gelu,
        F.silu,
        F.mish,
        F.softplus,
        F.softsign,
    ),
    *(
        F.logsigmoid,
        F.hardtanh,
        F.hardsigmoid,
        F.hardswish,
        F.hardshrink,
        F.softshrink,
        F.tanhshrink,
        F.threshold,
    ),
    *(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout),
    *(torch.relu, torch.relu_, torch.sigmoid, torch.sigmoid_, torch.tanh, torch.tanh_),
    *("relu", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "contiguous"),
}
RESHAPES: set[object] = {
    *(nn.Flatten, nn.Unflatten, torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze),
    *("flatten", "view", "reshape", "squeeze", "unsqueeze"),
}
SHAPE_METHODS, SHAPE_ATTRIBUTES = ("size", "dim"), ("shape", "ndim", "dtype", "device")


@dataclass(frozen=True, eq=False)
class Step:
    """One operation on the way of the units."""

    run: Callable[[Tensor], Tensor]
    axis: int
    """Where the units stand in its result; each has one or, once flattened, several neighbouring features there."""
    norm: Norm | None = None
    pools: bool = False
    in_place: bool = False


class MixedError(Exception):
    """Units meet an operation that may mix them with others."""


def to_step(node: fx.Node, before: fx.Node, axis: int, norm: nn.Module | None) -> Step:
    """The node as a step of the units that come from the node before."""
    if is_hooked(node) or not _remakes(node, before):
        raise MixedError(node.name)
    kind, shape = operation(node), before.meta["shape"]
    if kind in RESHAPES:
        after = node.meta["shape"]
        return Step(lambda value: value.reshape(after), _axis_after(shape, axis, after, node.name))
    known = kind in ELEMENTWISE and not node.kwargs.get("training")
    known = (
        known
        or (kind in POOLS and axis < len(shape) - POOLS[kind])
        or (norm is not None and axis == 1)
    )
    if not known or node.all_input_nodes != [before]:
        raise MixedError(node.name)
    return Step(_run(node), axis, norm, kind in POOLS, _is_in_place(node))  # type: ignore[arg-type]


def _axis_after(before: tuple[int, ...], axis: int, after: tuple[int, ...], name: str) -> int:
    """Where units stand after a reshape: elements keep their order, so as many must stand before them as did.

    >>> _axis_after((2, 50, 4, 4), 1, (2, 800), "view")
    1
    """
    lead = prod(before[:axis])
    places = [
        at for at, size in enumerate(after) if prod(after[:at]) == lead and size % before[axis] == 0
    ]
    if not places:
        raise MixedError(name)
    return axis if axis in places else places[-1]


def _remakes(node: fx.Node, before: fx.Node) -> bool:
    """Whether the node makes one tensor of the one before, in the same type: view(dtype) reads other numbers."""
    words = [*node.args, *node.kwargs.values()]
    return (
        node.args[:1] == (before,)
        and "shape" in node.meta
        and not any(isinstance(w, torch.dtype) for w in words)
    )


def operation(node: fx.Node) -> Any:
    """What a node does: the type of its module, its function, or its method's name."""
    return type(module_of(node)) if node.op == "call_module" else node.target


def module_of(node: fx.Node) -> nn.Module:
    """The module that a node calls."""
    assert node.graph.owning_module is not None
    return node.graph.owning_module.get_submodule(str(node.target))


def is_hooked(node: fx.Node) -> bool:
    """Whether hooks may change what the node's module computes; torch.fx does not see them."""
    module = module_of(node) if node.op == "call_module" else None
    return module is not None and bool(module._forward_hooks or module._forward_pre_hooks)


def _run(node: fx.Node) -> Callable[[Tensor], Tensor]:
    if node.op == "call_module":
        return module_of(node)
    function: Any = getattr(Tensor, node.target) if isinstance(node.target, str) else node.target
    return lambda value: function(value, *node.args[1:], **node.kwargs)


def _is_in_place(node: fx.Node) -> bool:
    if node.op == "call_module":
        return bool(getattr(module_of(node), "inplace", False))
    name = node.target if isinstance(node.target, str) else node.target.__name__
    return name.endswith("_") or bool(node.kwargs.get("inplace"))


def reads_shape(node: fx.Node) -> bool:
    """Whether a node asks for a tensor's shape and not for its numbers."""
    if node.op == "call_method":
        return node.target in SHAPE_METHODS
    return node.target is getattr and node.args[1] in SHAPE_ATTRIBUTES
