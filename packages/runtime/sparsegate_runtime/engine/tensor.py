"""Tensors of a plan: shapes and strides over buffers, of which views are made without copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import structures as c

LANES = 16
SLACK = 512
"""Floats that a kernel may read or write beyond the end of a buffer in the arena."""


@dataclass(eq=False)
class Buffer:
    """Memory of the arena, or a tensor that is passed to a call."""

    size: int
    slot: int = 0
    """0 for the arena; others count inputs, outputs and constants."""
    offset: int = 0
    """Where it begins in the arena, once that is planned."""
    lead: int = 0
    """Floats before the first position of each channel, which belong to the channel."""
    extent: int = 0
    """Positions of each channel with the border around images; 0 if there is none."""
    is_clean: bool = False
    """Whether the border of its images holds zeros, or what `border` says."""
    border: float = 0.0
    kind: str = "float32"
    constant: NDArray[Any] | None = None
    first: int = -1
    last: int = -1
    """The first and the last operation that uses it."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """Elements of a buffer by shape and strides, in floats."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, order: Sequence[int] | None = None) -> c.View:
        """The structure of C, with the dimensions in this order."""
        dims = range(len(self.shape)) if order is None else order
        strides = c.DIMS(*(self.strides[dim] for dim in dims))
        return c.View(self.buffer.slot, self.buffer.offset + self.offset, strides)

    def place(self, channel: int) -> c.Place:
        """The structure of C for a tensor of channels and positions."""
        return c.Place(self.buffer.slot, self.buffer.offset + self.offset, self.strides[channel])

    def permute(self, dims: Sequence[int]) -> Tensor:
        """The dimensions in another order."""
        return Tensor(
            self.buffer,
            self.offset,
            tuple(self.shape[dim] for dim in dims),
            tuple(self.strides[dim] for dim in dims),
        )

    def slice(self, dim: int, start: int, step: int, size: int) -> Tensor:
        """Some positions of one dimension."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[dim]
        shape[dim], strides[dim] = size, strides[dim] * step
        return Tensor(self.buffer, offset, tuple(shape), tuple(strides))

    def expand(self, shape: Sequence[int]) -> Tensor:
        """Dimensions of size one repeated; new dimensions come first."""
        missing = len(shape) - len(self.shape)
        old = [1] * missing + list(self.shape)
        strides = [0] * missing + list(self.strides)
        repeated = [
            stride if size == wanted else 0
            for stride, size, wanted in zip(strides, old, shape, strict=True)
        ]
        return Tensor(self.buffer, self.offset, tuple(shape), tuple(repeated))

    def reshape(self, shape: Sequence[int]) -> Tensor | None:
        """The same elements in another shape; None if that needs a copy."""
        strides = view_strides(self.shape, self.strides, shape)
        return None if strides is None else Tensor(self.buffer, self.offset, tuple(shape), strides)

    def positions(self, channel: int) -> Positions | None:
        """All dimensions but one as neighbors; None if they are not, or with large gaps."""
        dims = [dim for dim in range(len(self.shape)) if dim != channel]
        found = Positions.of([self.shape[d] for d in dims], [self.strides[d] for d in dims])
        step = self.strides[channel]
        is_whole = step and self.offset % step == self.buffer.lead
        if found is None or not is_whole or found.extent > self.buffer.extent:
            return found
        return replace(found, extent=self.buffer.extent)


@dataclass(frozen=True, eq=False)
class Phases:
    """Images taken apart by the phases of a stride."""

    tensor: Tensor
    """[channels, images, ...]: the first phase."""
    offsets: Any
    """[taps] bytes from a position to the input of each tap."""
    apart: tuple[int, int, int] = (0, 0, 0)
    """Where images that lie side by side are read: `Apart` of engine.h."""


@dataclass(frozen=True)
class Positions:
    """Where the positions of a channel lie: dimensions by size and stride."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    extent: int
    """Positions from the first to the last, gaps and a border at the end included."""

    @property
    def count(self) -> int:
        """Positions from the first to the last, without a border at the end.

        >>> Positions((2, 3), (4, 1), 8).count
        7
        """
        return 1 + sum(
            (size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)
        )

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int]) -> Positions | None:
        """None if neighbors do not lie next to each other, or most of the extent is gaps."""
        spread = sorted((stride, size) for stride, size in zip(strides, shape, strict=True))
        reach = 1
        for stride, size in spread:
            if size > 1 and stride < reach:
                return None
            if size > 1:
                reach = (size - 1) * stride + reach
        real = [(stride, size) for stride, size in spread if size > 1]
        if real and real[0][0] != 1 and prod(shape) > 1:
            return None
        extent = max([reach, *(stride * size for stride, size in real[-1:])])
        if prod(shape) < 0.4 * extent:
            return None
        return cls(tuple(shape), tuple(strides), extent)

    def runs(self) -> tuple[tuple[int, int], ...]:
        """The first and the last of neighbors without gaps, if whole vectors can be taken of them.

        >>> Positions((2, 3, 16), (64, 16, 1), 128).runs()
        ((0, 48), (64, 112))
        >>> Positions((2, 3), (4, 1), 8).runs()
        ()
        """
        dims = sorted(
            (stride, size)
            for stride, size in zip(self.strides, self.shape, strict=True)
            if size > 1
        )
        length = 1
        while dims and dims[0][0] == length:
            length *= dims.pop(0)[1]
        if length % LANES or any(stride % LANES for stride, _ in dims):
            return ()
        begins = np.zeros(1, np.int64)
        for stride, size in reversed(dims):
            begins = (begins[:, None] + np.arange(size) * stride).reshape(-1)
        return tuple((int(begin), int(begin) + length) for begin in begins)

    def inside(self, extent: int) -> NDArray[np.int32]:
        """A mask of the positions: all bits set, or none for the border and what follows."""
        mask = np.zeros(rounded(extent) + SLACK, np.int32)
        index = np.zeros(self.shape, np.int64)
        for dim, stride in enumerate(self.strides):
            steps = np.arange(self.shape[dim]) * stride
            index += steps.reshape([-1 if d == dim else 1 for d in range(len(self.shape))])
        mask[index.reshape(-1)] = -1
        return mask


def rounded(size: int, to: int = LANES) -> int:
    """The next multiple.

    >>> rounded(17)
    32
    """
    return -(-size // to) * to


def spaced(extent: int) -> int:
    """The distance between channels for so many positions: tiles of neighbors use all cache sets.

    >>> spaced(128), spaced(2048)
    (128, 2176)
    """
    lines = -(-extent // LANES)
    if lines > 8 and lines % 16 in (0, 15, 1):
        lines += 8 if lines % 16 == 0 else 4
    return lines * LANES


def dense_strides(shape: Sequence[int], order: Iterable[int] | None = None) -> tuple[int, ...]:
    """Strides without gaps, the last dimension of the order innermost.

    >>> dense_strides((2, 3, 4)), dense_strides((2, 3, 4), (0, 2, 1))
    ((12, 4, 1), (12, 1, 3))
    """
    strides, step = [0] * len(shape), 1
    for dim in reversed(list(range(len(shape)) if order is None else order)):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def view_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of the same elements in another shape; None if there are none.

    >>> view_strides((2, 3, 4), (12, 4, 1), (6, 4))
    (4, 1)
    >>> view_strides((2, 3), (1, 2), (6,)) is None
    True
    """
    if prod(wanted) == 0:
        return dense_strides(wanted)
    left = [size for size in wanted if size != 1]
    found: list[int] = []
    for count, stride in _chunks(shape, strides):
        taken = 1
        while taken < count and left:
            found.append(stride * taken)
            taken *= left.pop()
        if taken != count:
            return None
    real = iter(reversed(found))
    return _with_ones(tuple(0 if size == 1 else next(real) for size in wanted), wanted)


def _chunks(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Merges dimensions without gaps: pairs of size and stride, the last dimension first."""
    found: list[tuple[int, int]] = []
    for size, stride in reversed(list(zip(shape, strides, strict=True))):
        if size == 1:
            continue
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = size * found[-1][0], found[-1][1]
        else:
            found.append((size, stride))
    return found


def _with_ones(strides: tuple[int, ...], shape: Sequence[int]) -> tuple[int, ...]:
    """Gives dimensions of size one the stride that a dense tensor would have there."""
    made, step = list(strides), 1
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            made[dim] = step
        else:
            step = made[dim] * shape[dim]
    return tuple(made)


@dataclass
class Slots:
    """The buffers of a call that are not the arena: inputs, outputs, constants."""

    buffers: list[Buffer] = field(default_factory=list)

    def add(self, *, constant: NDArray[Any] | None = None, kind: str = "float32") -> Buffer:
        """A further one."""
        made = Buffer(0, slot=len(self.buffers) + 1, constant=constant, kind=kind)
        self.buffers.append(made)
        return made
