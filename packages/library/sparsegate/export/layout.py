"""Where the values of a layer's result lie in memory: live channels only, in a border of zeros where one is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .layer import Pair, Shape


@dataclass(frozen=True)
class Layout:
    """The places of channels x height x width values.

    >>> layout = Layout((3, 2, 4), live=(0, 2), border=(1, 1))
    >>> layout.plane, layout.size, layout.at(2, 0, 0)  # 24 = a plane of 4 x 6; 31 = 24 + the first row of 6 + 1
    (24, 48, 31)
    """

    shape: Shape
    live: tuple[int, ...]
    """The channels that somebody reads."""
    border: Pair = (0, 0)

    @property
    def row(self) -> int:
        """From one row to the next."""
        return self.shape[2] + 2 * self.border[1]

    @property
    def plane(self) -> int:
        """From one channel to the next."""
        return self.row * (self.shape[1] + 2 * self.border[0])

    @property
    def size(self) -> int:
        """Values in all, the border's among them."""
        return self.plane * len(self.live)

    @cached_property
    def slots(self) -> dict[int, int]:
        """The place of every live channel among those in memory."""
        return {channel: slot for slot, channel in enumerate(self.live)}

    def at(self, channel: int, y: int, x: int) -> int:
        """Where a value lies; (0, 0) is the first inside the border."""
        return (
            self.slots[channel] * self.plane + (y + self.border[0]) * self.row + x + self.border[1]
        )

    def feature(self, index: int) -> int:
        """Where a value lies that has this place among the flattened ones."""
        _, height, width = self.shape
        channel, place = divmod(index, height * width)
        return self.at(channel, *divmod(place, width))
