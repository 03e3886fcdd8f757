"""The operations of a network that the engine plans: typed nodes over tensors of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .functions import Function

Array = NDArray[np.float32]
Weight = Any
"""An `Array`, or a `KeptArray` that leaves out its zeros; `np.asarray` makes the former of both."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """CONTRACT A tensor that an operation computes from others."""

    inputs: tuple[Node, ...] = field(default=(), repr=False)
    shape: tuple[int, ...]
    name: str = ""
    """The layer that it stands for; empty for operations without weights."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Node):
    """A tensor that the caller passes, in the usual order of elements."""

    index: int
    kind: str = "float32"
    """`float32`, `int64` or `bool`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Constant(Node):
    """A tensor that no input changes."""

    value: NDArray[Any] = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class External(Node):
    """An operation that the engine does not have; the caller runs it."""

    run: Callable[..., Any] = field(repr=False)
    """Takes the inputs, gives the tensor."""
    kind: str = "float32"


@dataclass(frozen=True, eq=False)
class Unscaled:
    """A weight before a norm was folded into it, and the factors of its outputs.

    Files store these: weights that share values do so before their outputs are scaled.
    """

    weight: Weight = field(repr=False)
    factors: Array = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Node):
    """A matrix times the last dimension, plus a bias."""

    weight: Weight = field(repr=False)
    bias: Array | None = field(repr=False)
    unscaled: Unscaled | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv(Node):
    """A convolution over images [batch, channels, height, width], padded with zeros."""

    weight: Weight = field(repr=False)
    """[outputs, inputs of a group, height, width]."""
    bias: Array | None = field(repr=False)
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    """Zeros before and after, for lines and pixels; negative numbers leave some out."""
    dilation: tuple[int, int]
    groups: int
    unscaled: Unscaled | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class TransposedConv(Node):
    """A transposed convolution; its weight is [inputs, outputs of a group, height, width]."""

    weight: Weight = field(repr=False)
    bias: Array | None = field(repr=False)
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    unscaled: Unscaled | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Map(Node):
    """A function of elements of one or two tensors, which are broadcast as in numpy."""

    function: Function
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Node):
    """The same elements, in the same order, in another shape."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Permute(Node):
    """The same elements with the dimensions in another order."""

    dimensions: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(Node):
    """Some positions of one dimension."""

    dimension: int
    start: int
    step: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Expand(Node):
    """Dimensions of size one repeated; new dimensions come first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Node):
    """Tensors one after another along a dimension."""

    dimension: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Node):
    """More positions before and after, with a value; negative numbers leave some out."""

    sides: tuple[tuple[int, int], ...]
    """For every dimension."""
    value: float


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerNorm(Node):
    """Normalization over the last dimension."""

    weight: Array | None = field(repr=False)
    bias: Array | None = field(repr=False)
    eps: float
    rms: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupNorm(Node):
    """Normalization over groups of channels of an image [batch, channels, height, width]."""

    weight: Array | None = field(repr=False)
    bias: Array | None = field(repr=False)
    eps: float
    groups: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax(Node):
    """Softmax over one dimension."""

    dimension: int
    log: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Node):
    """The matrix product of two activations, broadcast over all but the last two dimensions."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention(Node):
    """Softmax(scale * q k^T + mask) v over [batch, heads, tokens, features]; it may lack a mask."""

    causal: bool
    scale: float


@dataclass(frozen=True, eq=False, kw_only=True)
class CachedAttention(Node):
    """Attention of one token to itself and to those of a cache, which takes its key and value.

    It reads q, k, v [batch, heads, 1, features], the keys and the values of all layers, and the
    numbers of tokens in the cache and that it has room for. `CachedAttention` of engine.h says how
    the caller lays them out.
    """

    layer: int
    scale: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduce(Node):
    """The sum, mean, maximum or minimum over some dimensions, which are kept with size one."""

    function: str
    dimensions: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(Node):
    """The largest value or the mean of windows of images [batch, channels, height, width]."""

    largest: bool
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    counts_padding: bool = True
    divisor: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Upsample(Node):
    """Interpolates images: two sources for each line and pixel, and the second's weight."""

    lines: tuple[NDArray[np.int32], NDArray[np.int32], Array] = field(repr=False)
    pixels: tuple[NDArray[np.int32], NDArray[np.int32], Array] = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding(Node):
    """Rows of a table, by the indices that are the input."""

    table: Weight = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Cast(Node):
    """The integers or truth values of an input as floats."""


CELLS = ("tanh", "relu", "lstm", "gru")
"""Kinds of recurrent layers, by the numbers of recurrent.h."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Recurrent(Node):
    """All steps of a recurrent layer over [batch, tokens, units], from a state of zeros.

    Its input [batch, tokens, gates * units] is what the layer's inputs add to its sums; a `Linear`
    computes it. Gates are in torch's order: input, forget, candidate, output of an LSTM; reset,
    update, new of a GRU.
    """

    cell: str
    """One of `CELLS`."""
    weight: Weight = field(repr=False)
    """[gates * units, units]: the recurrent matrix."""
    bias: Array | None = field(repr=False)
    reverse: bool = False
    """Whether the last token comes first."""


@dataclass(frozen=True, eq=False)
class Network:
    """Operations in an order in which they can run, and what they compute for the caller."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The tensors that the caller passes."""
        found = [node for node in self.nodes if isinstance(node, Input)]
        return tuple(sorted(found, key=lambda node: node.index))


def needed(nodes: Sequence[Node], outputs: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes that have a part in the outputs, and all inputs."""
    wanted: set[Node] = set()
    todo = list(outputs)
    while todo:
        node = todo.pop()
        if node not in wanted:
            wanted.add(node)
            todo += node.inputs
    return tuple(one for one in nodes if one in wanted or isinstance(one, Input))
