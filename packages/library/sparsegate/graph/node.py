"""The vocabulary of a captured model: what each operation does, whichever way it was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, fx


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that no input changes: a parameter, a buffer, or something computed from them."""

    name: str
    """The fully qualified name of a parameter or buffer; empty if the tensor is computed."""
    node: fx.Node = field(repr=False)
    read: Callable[[], Tensor] = field(repr=False)
    """The present value: the parameter itself, or the result of computing it again."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """An operation on activations; its shapes are those of the example."""

    name: str
    inputs: tuple[Node, ...] = field(repr=False)
    """The activations that it reads."""
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    batched: bool
    """Whether the first dimension, and no other, changes with the size of the batch."""
    path: str
    """The module whose forward called the operation; empty for the model itself."""
    origin: fx.Node = field(repr=False)

    @property
    def input(self) -> Node:
        """The only activation that it reads."""
        (only,) = self.inputs
        return only


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Node):
    """An input of the model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Node):
    """A linear layer over the last dimension."""

    weight: Constant
    bias: Constant | None

    @property
    def axis(self) -> int:
        """The dimension of the features, in what it reads and in what it computes."""
        return len(self.shape) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv(Node):
    """A convolution over one, two or three dimensions, padded with zeros."""

    weight: Constant
    bias: Constant | None
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    """Zeros before and after, for every dimension."""
    dilation: tuple[int, ...]
    groups: int

    @property
    def axis(self) -> int:
        """The dimension of the channels, in what it reads and in what it computes."""
        return len(self.shape) - 1 - len(self.stride)

    @property
    def even_padding(self) -> tuple[int, ...] | None:
        """Zeros on either side of every dimension; None if the sides differ."""
        sides = tuple(before for before, _ in self.padding)
        return sides if sides == tuple(after for _, after in self.padding) else None


Layer: TypeAlias = Linear | Conv


@dataclass(frozen=True, eq=False, kw_only=True)
class Norm(Node):
    """Batch normalization by running statistics: a scale and a shift for every channel."""

    weight: Constant | None
    bias: Constant | None
    mean: Constant
    variance: Constant
    eps: float

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """What it multiplies every channel by and what it adds then, in double precision."""
        scale = (self.variance.read().double() + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight.read().detach()
        shift = -self.mean.read() * scale
        return scale, shift if self.bias is None else shift + self.bias.read().detach()


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(Node):
    """An elementwise function of one or more activations of the same shape."""

    function: str
    """The name of the ATen operator, such as `relu` or `add`."""
    has_settings: bool
    """Whether other arguments than the activations differ from their defaults."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(Node):
    """The largest value or the mean of windows over the last dimensions."""

    kind: str
    """`max` or `mean`."""
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False
    counts_padding: bool = True
    """Whether a mean counts the zeros of the padding."""
    divisor: int | None = None
    """What a mean divides by, if not by the size of the window."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AdaptivePool(Node):
    """The largest value or the mean of windows, whose number is fixed instead of their size."""

    kind: str
    dimensions: int
    """How many of the last dimensions it pools over."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Mean(Node):
    """The mean over some dimensions."""

    dimensions: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Node):
    """The same elements, in the same order, in another shape."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(Node):
    """Some positions of one dimension."""

    dimension: int
    start: int
    step: int
    to_end: bool
    """Whether it goes on to the end of the dimension."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Node):
    """More positions around the last dimensions."""

    sides: tuple[int, ...]
    """Before and after, from the last dimension to the first, as in `torch.nn.functional.pad`."""
    mode: str
    value: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Other(Node):
    """Any other operation; torch runs it."""

    function: str
