"""Finds, in a traced model, the layers that can run sparse and what follows each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from sparsegate.export import scale_and_shift
from sparsegate.graph import trace

from .chain import Layer

RECTIFIERS: tuple[Any, ...] = (F.relu, torch.relu, "relu", "relu_")
POOLS: tuple[Any, ...] = (F.max_pool2d, torch.max_pool2d)
RESHAPES: tuple[Any, ...] = (torch.flatten, torch.reshape, "flatten", "view", "reshape")
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)
TRACED = 1e-3
"""By how much, of the largest output, a trace may differ: the same operations on the same numbers."""
NOTHING = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Identity,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
)


class Unit(ABC):
    """Nodes of a traced model that a chain of kernels runs: a piece, or several and what is around them."""

    nodes: list[fx.Node]
    """All that it does, in the graph's order."""
    shapes: dict[str, tuple[int, ...]]
    """Of one image: what goes in, what comes out."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """The layers in it."""

    @property
    def source(self) -> fx.Node:
        """What it reads."""
        found: Any = self.nodes[0].args[0]
        return found  # type: ignore[no-any-return]

    @property
    @abstractmethod
    def layers(self) -> list[Layer]:
        """As the kernels want them."""


@dataclass
class Piece(Unit):
    """A layer of a traced model, and what one kernel does with it: BatchNorm, pooling, rectifying and flattening."""

    name: str
    """The layer's name in the model."""
    module: nn.Linear | nn.Conv2d
    nodes: list[fx.Node]
    norm: nn.Module | None = None
    """The BatchNorm right after the layer: in eval it is a line for every unit, and goes into its weights and bias."""
    pool: int = 1
    pool_stride: int = 1
    relu: bool = False
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of one image: what goes in, what comes out."""

    @property
    def sparsity(self) -> float:
        """The fraction of weights that are zero."""
        weight = self.module.weight
        return 1 - int(weight.count_nonzero()) / max(weight.numel(), 1)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Itself."""
        return (self,)

    @property
    def layers(self) -> list[Layer]:
        """As the kernels want it, alone."""
        return [self.layer()]

    def folded(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the layer and its BatchNorm together; a weight that is zero stays so."""
        weight, bias = self.module.weight.detach(), self.module.bias
        bias = None if bias is None else bias.detach()
        if self.norm is None:
            return weight, bias
        scale, shift = scale_and_shift(self.norm)
        shift = shift if bias is None else shift + bias * scale
        return (weight * scale.view(-1, *[1] * (weight.ndim - 1))).to(weight.dtype), shift.to(
            weight.dtype
        )

    def layer(self) -> Layer:
        """As the kernels want it."""
        size = self.shapes["in"]
        weight, bias = self.folded()
        weight, bias = (
            weight.float().cpu().contiguous(),
            None if bias is None else bias.float().cpu(),
        )
        if isinstance(self.module, nn.Linear):
            return Layer(weight, bias, (prod(size), 1, 1), relu=self.relu)
        conv = self.module
        (channels, height, width), padding = size, padding_of(conv)
        assert padding is not None
        return Layer(
            weight,
            bias,
            (channels, height, width),
            *(
                conv.stride,
                padding,
                conv.dilation,
                conv.groups,
                self.pool,
                self.pool_stride,
                self.relu,
            ),  # type: ignore[arg-type]
        )

    def dense(self, x: Tensor) -> Tensor:
        """The same, by torch."""
        x = self.module(x)
        x = self.pooled(x if self.norm is None else self.norm(x))
        return x.relu() if self.relu else x

    def pooled(self, x: Tensor) -> Tensor:
        """What follows the layer but for the rectifier, which may come before or after: the outputs are the same."""
        if self.pool > 1 or self.pool_stride > 1:
            x = F.max_pool2d(x, self.pool, self.pool_stride)
        return x.reshape(len(x), *self.shapes["out"])


def traced(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """The model's graph with the shapes that the example gives."""
    if _has_hooks(model):
        raise ValueError(
            "the model has forward hooks of its own, which no trace sees; remove them, or put it into another"
        )
    model = (
        nn.Sequential(model) if isinstance(model, nn.Linear | nn.Conv2d) else model
    )  # torch.fx would look inside
    with torch.no_grad():
        graph = fx.GraphModule(model, trace(model, example))
    _check_containers(model, graph)
    if not shape_of(graph.graph.output_node()):
        raise ValueError(
            "sg.sparse takes models that give one batch of outputs; wrap the model in one that does"
        )
    return graph


def _check_containers(model: nn.Module, graph: fx.GraphModule) -> None:
    called = {str(node.target) for node in graph.graph.nodes if node.op == "call_module"}
    inside = tuple(f"{name}." for name in called)
    for name, module in model.named_modules():
        if _has_hooks(module) and name not in called and not name.startswith(inside):
            raise ValueError(
                f"{name} has forward hooks, which no trace sees; remove them, or put them on its layers"
            )


@torch.no_grad()
def check_trace(model: nn.Module, example: Tensor) -> None:
    """Refuses a model that computes something else than its trace: torch.fx takes `z += y` for a sum of its own."""
    outputs = []
    for run in (traced(model, example), model):
        with torch.random.fork_rng(
            [example.device] if example.is_cuda else []
        ):  # both draw the same, and nobody else
            outputs.append(run(example.clone()).detach())  # a model may change its input
    found, wanted = outputs
    finite = wanted[wanted.isfinite()]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    if not torch.allclose(found, wanted, rtol=TRACED, atol=TRACED * size, equal_nan=True):
        raise ValueError(
            f"{type(model).__name__} computes something else than its operations as torch.fx sees them; its forward "
            "must not add in place (z += y) to what it reads again, nor draw random numbers"
        )


def pieces(graph: fx.GraphModule) -> list[Piece]:
    """Every layer that can run sparse, in the order of the graph."""
    found = []
    for node in graph.graph.nodes:
        module = graph.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(module, nn.Linear | nn.Conv2d) and _fits(node, module):
            found.append(_grown(Piece(str(node.target), module, [node]), graph))
    names = [piece.name for piece in found]
    return [
        piece for piece in found if names.count(piece.name) == 1
    ]  # one that is called twice stays as it is


def follows(unit: Unit, other: Unit) -> bool:
    """Whether a unit reads what the other gives, and nobody else does."""
    last = other.nodes[-1]
    return (
        unit.source is last
        and set(last.users) <= set(unit.nodes)
        and unit.shapes["in"] == other.shapes["out"]
    )


def _fits(node: fx.Node, module: nn.Linear | nn.Conv2d) -> bool:
    if (
        type(module).forward not in (nn.Linear.forward, nn.Conv2d.forward)
        or node.kwargs
        or len(node.args) != 1
    ):
        return False
    if not module.weight.numel() or not _is_itself(module):
        return False
    if isinstance(module, nn.Linear):
        return len(shape_of(node)) == 2
    return (
        len(shape_of(node)) == 4
        and module.padding_mode == "zeros"
        and padding_of(module) is not None
    )


def padding_of(conv: nn.Conv2d) -> tuple[int, int] | None:
    """Zeros above and to the left, the same as below and to the right; nothing if those differ."""
    if conv.padding == "valid":
        return 0, 0
    if isinstance(conv.padding, str):
        sides = [
            dilation * (taps - 1)
            for dilation, taps in zip(conv.dilation, conv.kernel_size, strict=True)
        ]
        return (sides[0] // 2, sides[1] // 2) if not any(side % 2 for side in sides) else None
    return conv.padding[0], conv.padding[1]


def _grown(piece: Piece, graph: fx.GraphModule) -> Piece:
    """Takes in what follows the layer, as long as a kernel can do it and nobody else reads in between."""
    piece.shapes["in"] = shape_of(piece.nodes[0].args[0])[1:]
    while len(piece.nodes[-1].users) == 1:
        node = next(iter(piece.nodes[-1].users))
        if not any(take(piece, node, graph) for take in TAKES):
            break
        piece.nodes.append(node)
    piece.shapes["out"] = shape_of(piece.nodes[-1])[1:]
    return piece


def _take_nothing(piece: Piece, node: fx.Node, graph: fx.GraphModule) -> bool:
    return calls(node, graph, NOTHING, ()) and shape_of(node) == shape_of(piece.nodes[-1])


def _take_norm(piece: Piece, node: fx.Node, graph: fx.GraphModule) -> bool:
    norm = _module(node, graph)
    is_first = piece.norm is None and not piece.relu and piece.pool == piece.pool_stride == 1
    if (
        not is_first
        or shape_of(piece.nodes[-1]) != shape_of(piece.nodes[0])
        or not calls(node, graph, NORMS, ())
    ):
        return False
    assert norm is not None
    usual = type(norm).forward in (nn.BatchNorm2d.forward, nn.SyncBatchNorm.forward)
    if (
        not usual or norm.training or norm.running_mean is None
    ):  # which depends on the other images of a batch
        return False
    piece.norm = norm
    return True


def _take_rectifier(piece: Piece, node: fx.Node, graph: fx.GraphModule) -> bool:
    is_one = calls(node, graph, (nn.ReLU,), RECTIFIERS)
    piece.relu = piece.relu or is_one
    return is_one


def _take_pool(piece: Piece, node: fx.Node, graph: fx.GraphModule) -> bool:
    if not calls(node, graph, (nn.MaxPool2d,), POOLS):
        return False
    module = _module(node, graph)
    given = (
        dict(zip(_POOL_SETTINGS, node.args[1:], strict=False)) | node.kwargs
        if module is None
        else vars(module)
    )
    settings = [given.get(name, default) for name, default in _POOL_SETTINGS.items()]
    sizes = [
        _square(each)
        for each in (settings[0], settings[1] or settings[0], settings[2], settings[3])
    ]
    plain = sizes[2:] == [0, 1] and None not in sizes and not any(settings[4:])
    if not plain or piece.pool > 1 or piece.pool_stride > 1 or len(shape_of(piece.nodes[-1])) != 4:
        return False
    piece.pool, piece.pool_stride = sizes[0], sizes[1]  # type: ignore[assignment]
    return True


_POOL_SETTINGS: dict[str, Any] = dict.fromkeys(("kernel_size", "stride"))
_POOL_SETTINGS |= {"padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}


def _take_reshape(piece: Piece, node: fx.Node, graph: fx.GraphModule) -> bool:
    return flattens(node, piece.nodes[-1], graph)


TAKES = (_take_nothing, _take_norm, _take_rectifier, _take_pool, _take_reshape)


def flattens(node: fx.Node, before: fx.Node, graph: fx.GraphModule) -> bool:
    """Whether all that a node does is to make vectors of the images that another gives."""
    images, vectors = shape_of(before), shape_of(node)
    is_one = calls(node, graph, (nn.Flatten,), RESHAPES)
    return is_one and len(vectors) == 2 and vectors == (images[0], prod(images[1:]))


def _square(size: Any) -> int | None:
    sizes = set(size) if isinstance(size, tuple | list) else {size}
    one = sizes.pop()
    return (
        one if not sizes and isinstance(one, int) else None
    )  # not one that is known only when the model runs


def calls(
    node: fx.Node, graph: fx.GraphModule, modules: tuple[Any, ...], functions: tuple[Any, ...]
) -> bool:
    """Whether a node is one of these modules, functions or methods; a module may have the name of a method."""
    module = _module(node, graph)
    if module is None:
        return (
            node.op in ("call_function", "call_method") and node.target in functions
        )  # an input may be called relu
    return isinstance(module, modules) and _is_itself(module)


def _is_itself(module: nn.Module) -> bool:
    return not _has_hooks(module) and "forward" not in vars(
        module
    )  # which libraries put onto single layers


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)  # which a kernel would not call


def _module(node: fx.Node, graph: fx.GraphModule) -> nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def shape_of(node: Any) -> tuple[int, ...]:
    """What a node gave when the example went through; nothing of what is no tensor."""
    found: tuple[int, ...] = getattr(node, "meta", {}).get("shape", ())
    return found
