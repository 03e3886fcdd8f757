"""What the two layouts of images have in common: the contract, and filling borders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import structures as c
from .network import Node
from .structures import Kind
from .tensor import Phases, Positions, Tensor

if TYPE_CHECKING:
    from .planner import Planner


@dataclass(frozen=True)
class Written:
    """Which positions of a tensor an operation writes."""

    mask: NDArray[np.int32] | None = None
    """Zeros where a kernel writes zeros; None if it writes what it computes."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The positions to compute; all of them if there are none."""


class Layout(ABC):
    """CONTRACT Where the images of a network lie, and how strided operations read them."""

    @abstractmethod
    def images(self, node: Node, shape: tuple[int, ...]) -> Tensor:
        """A tensor [images, channels, height, width] on the grid of a node."""

    @abstractmethod
    def extent(self, out: Tensor) -> int:
        """Positions from the first to the last of such a tensor."""

    @abstractmethod
    def on_grid(self, node: Node, source: Tensor, border: float = 0.0) -> Tensor:
        """Images copied to the grid of a node, with a border around them."""

    @abstractmethod
    def phases(
        self,
        node: Node,
        taps: Sequence[int],
        dilation: Sequence[int],
        stride: Sequence[int],
        before: Sequence[int],
        fill: float,
    ) -> Phases:
        """What a convolution or pool reads, whose output lies on its grid."""

    @abstractmethod
    def written(
        self,
        out: Tensor,
        channel: int,
        border: float | None,
        positions: Positions | None = None,
        line: int = 0,
        is_summed: bool = False,
    ) -> Written:
        """What an operation writes to, with its border; its value is None if nothing reads it.

        Args:
            out: the tensor.
            channel: its dimension of channels.
            border: what the border must hold; None if nothing reads it.
            positions: the positions that the operation runs over; those of the tensor without it.
            line: floats of a line that no range goes beyond; 0 for no such lines.
            is_summed: whether a mean wants zeros between the lines of images.

        """


def fill(
    planner: Planner, out: Tensor, channel: int, positions: tuple[int, int], value: float
) -> None:
    """Writes a value to some positions of every channel."""
    begin, end = positions

    def make() -> c.Structure:
        place = out.place(channel)
        place.offset += begin
        return c.Fill(out.shape[channel], place, value, 0)

    planner.emit(Kind.FILL, make, [], out, extent=begin - end)
