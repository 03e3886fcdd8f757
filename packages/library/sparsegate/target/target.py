"""What a person wants of a sparse network, in the place of a price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FALLS = ("cube", "factor")
FALLING = ("keep", "weights", "bytes")  # wishes with a number to fall to
WISHES = ("keep", "weights", "max_drop", "bytes", "price", "path")


@dataclass(frozen=True)
class Target:
    """A wish that training ends on: exactly one of keep, weights, max_drop, bytes, price or path.

    >>> Target(keep=0.01).wish
    'keep'

    `GateSGD(model, target=Target(keep=0.01), steps=steps)` finds the price that fits. Training goes through four
    phases, as fractions of its steps: dense up to `begin`; fewer and fewer open gates up to `reach`; gates that change
    places up to `freeze`, where the exact cut is made; then the mask stands still and the weights that are left train
    on. A target in which nothing is asked for is no target, and false.
    """

    keep: float | None = None
    """Fraction of the gated weights that is left, such as 0.01."""

    weights: int | None = None
    """Number of gated weights that is left."""

    max_drop: float | None = None
    """As few weights as cost at most so many points of validation accuracy."""

    bytes: int | None = None
    """Size of the network's .sg file, in bytes, at most."""

    price: float | None = None
    """No wish for a size, but a price to hold, in nats: repeats roughly the run in which a target found it."""

    path: tuple[float, ...] | None = None
    """Prices in nats, at equal distances from `begin` to `freeze`: repeats that run closely."""

    baseline: float | None = None
    """For max_drop: the accuracy of the dense network in per cent; by command it is trained first unless given."""

    begin: float = 0.15
    """Fraction of training in which all gates stand still and the gradients' scale is measured."""

    reach: float = 0.6
    """Fraction of training after which the number of open gates is the one asked for."""

    freeze: float = 0.8
    """Fraction of training after which the mask stands still."""

    travel: float = 10.0
    """How far a gate with an average push, always the same way, would go in all of training."""

    evenly: float = 0.0
    """The unit in which gates move: 0, the average push in the network; 1, that in their own layer; or between them."""

    listen: bool = False
    """Whether gates take their first places by what the loss says about each up to `begin`: for trained weights."""

    fall: Literal["cube", "factor"] = "cube"
    """How the number of open gates falls: as a cube, or by the same factor at every step; not for max_drop."""

    def __post_init__(self) -> None:
        asked = [name for name in WISHES if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ValueError(
                f"a target is one of {', '.join(WISHES)}, got {' and '.join(asked)}; leave all but one out"
            )
        self._check_sizes()
        if self.baseline is not None and not (
            self.max_drop is not None and 0 < self.baseline <= 100
        ):
            raise ValueError(
                f"baseline is an accuracy in per cent for max_drop, got {self.baseline} with {asked}"
            )
        if not 0 < self.begin < self.reach <= self.freeze < 1:
            raise ValueError(
                f"wanted 0 < begin < reach <= freeze < 1, got begin={self.begin}, reach={self.reach}, "
                f"freeze={self.freeze}"
            )
        if self.listen and not self:
            raise ValueError(
                f"listen is a part of a target; ask for one of {', '.join(WISHES)} as well"
            )
        if not 0 <= self.evenly <= 1:
            raise ValueError(f"evenly is in [0, 1], got {self.evenly}")
        if self.fall not in FALLS or (self.fall != "cube" and self.wish not in FALLING):
            raise ValueError(
                f"fall is one of {', '.join(FALLS)}, other than a cube for {', '.join(FALLING)}, "
                f"got {self.fall!r} with {asked}"
            )
        if not self.travel > 0:
            raise ValueError(f"travel is a distance above zero, got {self.travel}")

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in WISHES)

    @property
    def wish(self) -> str:
        """The name of what is asked for; empty if nothing is."""
        return next((name for name in WISHES if getattr(self, name) is not None), "")

    def _check_sizes(self) -> None:
        if self.keep is not None and not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 99 % sparsity write keep=0.01"
            )
        if self.weights is not None and self.weights < 1:
            raise ValueError(f"weights is a number of weights, at least 1, got {self.weights}")
        if self.max_drop is not None and not 0 <= self.max_drop < 100:
            raise ValueError(
                f"max_drop is in points of accuracy, from 0 to 100, got {self.max_drop}"
            )
        if self.bytes is not None and self.bytes < 1:
            raise ValueError(f"bytes is the size of a file, at least 1, got {self.bytes}")
        if self.price is not None and not self.price >= 0:
            raise ValueError(f"price is zero or more, got {self.price}")
        if self.path is not None and not (self.path and all(price >= 0 for price in self.path)):
            raise ValueError(f"path is one or more prices, each zero or more, got {self.path}")
