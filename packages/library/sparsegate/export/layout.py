"""The layout in memory of a layer's result: live channels, with a border of zeros if needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .layer import Pair, Shape


@dataclass(frozen=True)
class Layout:
    """The positions of channels x height x width values.

    >>> layout = Layout((3, 2, 4), live=(0, 2), border=(1, 1))
    >>> layout.plane, layout.size, layout.at(2, 0, 0)  # 24 = 4 * 6; 31 = 24 + 6 + 1
    (24, 48, 31)
    """

    shape: Shape
    live: tuple[int, ...]
    """The channels that a later layer reads."""
    border: Pair = (0, 0)

    @property
    def row(self) -> int:
        """Distance between rows."""
        return self.shape[2] + 2 * self.border[1]

    @property
    def plane(self) -> int:
        """Distance between channels."""
        return self.row * (self.shape[1] + 2 * self.border[0])

    @property
    def size(self) -> int:
        """Number of values, including the border."""
        return self.plane * len(self.live)

    @cached_property
    def slots(self) -> dict[int, int]:
        """The position of each live channel in memory."""
        return {channel: slot for slot, channel in enumerate(self.live)}

    def at(self, channel: int, y: int, x: int) -> int:
        """The position of a value; (0, 0) is the first inside the border."""
        return (
            self.slots[channel] * self.plane + (y + self.border[0]) * self.row + x + self.border[1]
        )

    def feature(self, index: int) -> int:
        """The position of the value with this index in the flattened result."""
        _, height, width = self.shape
        channel, place = divmod(index, height * width)
        return self.at(channel, *divmod(place, width))
