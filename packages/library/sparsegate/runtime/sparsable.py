"""Finds the layers of a captured model that can run sparse, and what follows each of them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.graph import (
    Conv,
    Graph,
    Linear,
    Node,
    Norm,
    Pointwise,
    Pool,
    Reshape,
    capture,
    layer_name,
)

from .chain_layer import ChainLayer

CAPTURED = 1e-3
"""The largest allowed difference of a captured model, relative to the largest output."""


class Unit(ABC):
    """Nodes of a graph that a chain of kernels can run: one layer, or several in a block."""

    nodes: list[Node]
    """The nodes that it runs, in the graph's order."""
    shapes: dict[str, tuple[int, ...]]
    """The shapes of one input and one output."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """Its layers."""

    @property
    def source(self) -> Node:
        """The node that it reads."""
        return self.nodes[0].input

    @property
    @abstractmethod
    def layers(self) -> list[ChainLayer]:
        """Its layers in the form that the kernels need."""


@dataclass
class Piece(Unit):
    """A layer with what one kernel computes after it: BatchNorm, pooling, ReLU, flattening."""

    name: str
    """The layer's name in the model."""
    node: Linear | Conv
    nodes: list[Node]
    norm: Norm | None = None
    """The BatchNorm after the layer, which is folded into its weights and bias."""
    pool: int = 1
    pool_stride: int = 1
    relu: bool = False
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of one input and one output."""

    @property
    def weight(self) -> Tensor:
        """The layer's weight."""
        return self.node.weight.read().detach()

    @property
    def bias(self) -> Tensor | None:
        """The layer's bias."""
        return None if self.node.bias is None else self.node.bias.read().detach()

    @property
    def sparsity(self) -> float:
        """The fraction of weights that are zero."""
        return 1 - int(self.weight.count_nonzero()) / max(self.weight.numel(), 1)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Itself."""
        return (self,)

    @property
    def layers(self) -> list[ChainLayer]:
        """Returns the layer in the form that the kernels need."""
        return [self.layer()]

    def folded(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias with the BatchNorm folded in; a weight of zero stays zero."""
        weight, bias = self.weight, self.bias
        if self.norm is None:
            return weight, bias
        scale, shift = self.norm.scale_and_shift()
        shift = shift if bias is None else shift + bias * scale
        scaled = weight * scale.view(-1, *[1 for _ in weight.shape[1:]])
        return scaled.to(weight.dtype), shift.to(weight.dtype)

    def layer(self) -> ChainLayer:
        """The layer in the form that the kernels need."""
        weight, bias = self.folded()
        weight = weight.float().cpu().contiguous()
        bias = None if bias is None else bias.float().cpu()
        if isinstance(self.node, Linear):
            return ChainLayer(weight, bias, (prod(self.shapes["in"]), 1, 1), relu=self.relu)
        channels, height, width = self.shapes["in"]
        return ChainLayer(
            weight,
            bias,
            (channels, height, width),
            stride=_pair(self.node.stride),
            padding=padding_of(self.node),
            dilation=_pair(self.node.dilation),
            groups=self.node.groups,
            pool=self.pool,
            pool_stride=self.pool_stride,
            relu=self.relu,
        )

    def dense(self, x: Tensor) -> Tensor:
        """Computes the same by torch."""
        node = self.node
        if isinstance(node, Linear):
            x = F.linear(x, self.weight, self.bias)
        else:
            settings = (node.stride, padding_of(node), node.dilation, node.groups)
            x = F.conv2d(x, self.weight, self.bias, *settings)
        if (norm := self.norm) is not None:
            scale, shift = (None if one is None else one.read() for one in (norm.weight, norm.bias))
            statistics = norm.mean.read(), norm.variance.read()
            x = F.batch_norm(x, *statistics, weight=scale, bias=shift, eps=norm.eps)
        x = self.pooled(x)
        return x.relu() if self.relu else x

    def pooled(self, x: Tensor) -> Tensor:
        """Applies the operations after the layer; the ReLU may come before or after the pooling."""
        if self.pool > 1 or self.pool_stride > 1:
            x = F.max_pool2d(x, self.pool, self.pool_stride)
        return x.reshape(len(x), *self.shapes["out"])


def captured(model: nn.Module, example: Tensor) -> Graph:
    """Captures a model with one input and one output, for any batch size if possible."""
    rows = example if len(example) > 1 else _two_rows(example)
    try:
        graph = capture(model, rows, any_batch=True)
    except ValueError:  # the model takes one image only, or cannot be captured
        graph = capture(model, example)
    if not graph.structure.is_leaf() or graph.outputs[0] is None:
        raise ValueError(
            "sg.sparse takes models that give one batch of outputs; wrap the model in one that does"
        )
    if graph.changed:
        raise ValueError(
            f"the forward of {type(model).__name__} changes {', '.join(graph.changed)}, which "
            "sg.sparse cannot carry over; return the new value instead"
        )
    hooked = [
        name or type(module).__name__
        for name, module in model.named_modules()
        if module._forward_hooks or module._forward_pre_hooks
    ]
    if hooked:
        warnings.warn(
            f"forward hooks of {', '.join(hooked)} ran once, when the model was captured; "
            "sg.sparse keeps what they computed and does not call them again",
            stacklevel=2,
        )
    return graph


def _two_rows(example: Tensor) -> Tensor:
    if len(example):
        return example.expand(2, *example.shape[1:])
    return example.new_zeros((2, *example.shape[1:]))


@torch.no_grad()
def checked(graph: Graph, example: Tensor) -> Graph:
    """The graph, with the batch sizes for which it is right; refused if it is wrong."""
    with torch.autocast(example.device.type, enabled=False):
        if not _is_same(graph, example if len(example) in graph.batches else _two_rows(example)):
            raise ValueError(
                f"{type(graph.model).__name__} computes something else than its captured "
                "operations; its outputs must depend on its input and weights alone"
            )
        # torch.export takes no single input for any number of them, though it nearly always is.
        if graph.batches.start == 2 and _is_same(graph, example[:1]):
            return replace(graph, batches=range(graph.batches.stop))
    return graph


def _is_same(graph: Graph, example: Tensor) -> bool:
    """Whether the graph gives what the model gives, with the same random numbers."""
    outputs = []
    for run in (graph.runnable(), graph.model):
        with torch.random.fork_rng([example.device] if example.is_cuda else []):
            outputs.append(run(example.clone()).detach())  # a model may change its input
    found, wanted = outputs
    finite = wanted[wanted.isfinite()]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    return found.shape == wanted.shape and torch.allclose(
        found, wanted, rtol=CAPTURED, atol=CAPTURED * size, equal_nan=True
    )


def pieces(graph: Graph) -> list[Piece]:
    """Every layer that can run sparse, in the order of the graph."""
    found = [
        # A model that is a layer itself has no name for it; in nn.Sequential it would be 0.
        _grown(Piece(layer_name(layer) or "0", layer, [layer]), graph)
        for layer in graph.layers
        if _fits(layer)
    ]
    names = [piece.name for piece in found]
    return [piece for piece in found if names.count(piece.name) == 1]  # none that is called twice


def follows(unit: Unit, other: Unit, graph: Graph) -> bool:
    """Whether a unit reads what the other gives, and nothing else does."""
    last = other.nodes[-1]
    return (
        unit.source is last
        and last not in graph.outputs
        and set(graph.readers[last]) <= set(unit.nodes)
        and unit.shapes["in"] == other.shapes["out"]
    )


def _fits(layer: Linear | Conv) -> bool:
    if not layer.weight.read().numel() or not layer.batched:
        return False
    if isinstance(layer, Linear):
        return len(layer.shape) == 2
    return len(layer.shape) == 4 and len(layer.stride) == 2 and layer.even_padding is not None


def padding_of(conv: Conv) -> tuple[int, int]:
    """Zeros above and to the left, the same as below and to the right."""
    assert conv.even_padding is not None  # other convolutions are no pieces
    return _pair(conv.even_padding)


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    first, second = values
    return first, second


def _grown(piece: Piece, graph: Graph) -> Piece:
    """Takes in what follows the layer, as long as a kernel can do it and nothing else reads it."""
    piece.shapes["in"] = piece.node.input.shape[1:]
    node = graph.only_reader(piece.node)
    while node is not None and _take(piece, node):
        piece.nodes.append(node)
        node = graph.only_reader(node)
    piece.shapes["out"] = piece.nodes[-1].shape[1:]
    return piece


def _take(piece: Piece, node: Node) -> bool:
    """Takes one operation in, if a kernel can do it."""
    is_pooled = piece.pool > 1 or piece.pool_stride > 1
    if isinstance(node, Norm) and not (piece.norm or piece.relu or is_pooled):
        piece.norm = node if piece.nodes[-1].shape == piece.node.shape else None
        return piece.norm is not None
    if is_rectifier(node):
        piece.relu = True
        return True
    if isinstance(node, Pool) and not is_pooled and _is_plain_maximum(node):
        piece.pool, piece.pool_stride = node.kernel[0], node.stride[0]
        return True
    return flattens(node)


def is_rectifier(node: Node | None) -> bool:
    """Whether a node is a ReLU."""
    return isinstance(node, Pointwise) and node.function == "relu"


def _is_plain_maximum(pool: Pool) -> bool:
    """Whether a pool takes the largest value of square windows without padding."""
    square = len({*pool.kernel}) == len({*pool.stride}) == 1 and len(pool.kernel) == 2
    plain = not any(pool.padding) and {*pool.dilation} == {1} and not pool.ceil_mode
    return pool.kind == "max" and square and plain


def flattens(node: Node | None) -> bool:
    """Whether a node makes a vector of each image."""
    if not isinstance(node, Reshape) or not node.batched:
        return False
    return node.shape == (node.input.shape[0], prod(node.input.shape[1:]))
