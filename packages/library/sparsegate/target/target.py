"""What training should end on, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

FALLS = ("cube", "factor")
FALLING = ("keep", "weights", "bytes")  # goals with a number to fall to
WISHES = ("keep", "weights", "max_drop", "bytes", "price", "path")


class UnreachableTarget(UserWarning):
    """A target that training cannot end on; the text names the nearest that it can."""


@dataclass(frozen=True)
class Target:
    """What training should end on: exactly one of keep, weights, max_drop, bytes, price or path.

    >>> Target(keep=0.01).wish
    'keep'

    `GateSGD(model, target=Target(keep=0.01), steps=steps)` finds the price for it. Training has
    four phases, given as fractions of its steps. It is dense up to `begin`. The number of open
    gates falls up to `reach`. Gates still open and close up to `freeze`, where the exact cut is
    made. Then the mask is frozen, and the weights that are left train on.

    `Target(keep={"conv*": 0.2, "*": 0.01})` gives groups of layers a fraction each. A weight
    belongs to the first pattern that matches its name.

    A target that asks for nothing is false.

    Raises:
        ValueError: If more than one goal is given, or a value is out of range.
    """

    keep: float | Mapping[str, float] | None = None
    """Fraction of the gated weights to keep, such as 0.01, or one by name pattern."""

    weights: int | None = None
    """Number of gated weights to keep."""

    max_drop: float | None = None
    """As few weights as cost at most this many points of validation accuracy."""

    bytes: int | None = None
    """Largest size of the network's .sg file, in bytes."""

    price: float | None = None
    """A fixed price, in nats, whatever size it leads to: roughly repeats an earlier run."""

    path: tuple[float, ...] | None = None
    """Prices in nats, evenly spaced from `begin` to `freeze`: closely repeats a run."""

    baseline: float | None = None
    """For max_drop: dense accuracy in percent; the command measures it if not given."""

    begin: float = 0.1
    """Fraction of training in which all gates are frozen and the gradients' scale is measured."""

    reach: float = 0.5
    """Fraction of training after which the number of open gates is the one asked for."""

    freeze: float = 0.8
    """Fraction of training after which the mask is frozen."""

    travel: float | None = None
    """Distance that a gate with an average gradient of constant sign travels in the whole training.

    The default follows from the fraction of weights to keep: 1 for 5 %, 2 for 1.25 %, and at most
    10. With `listen` it is 0.03 for 10 %, 0.3 for 1 %. With `price` and `path` it is 10.
    """

    grade: bool | None = None
    """Whether gates that all start at one value follow the sizes of their weights from `begin` on.

    The smallest weights of every layer then close first (see `Graded`), unless the loss moves their
    gates. The default is true, unless `travel`, `price` or `path` is given. It has no effect on
    gates that are drawn at random (`Sample`).
    """

    evenly: float = 0.0
    """Unit in which gates move: the mean gradient of the network (0), or of each layer (1)."""

    listen: bool = False
    """Whether gates follow the loss instead: at `begin` their order is that of their mean squared
    gradients, of all layers together. Good for pretrained weights."""

    follow: bool = True
    """Whether the order of `grade` or `listen` is taken anew, fifty times until `freeze`.

    A gate then falls when its weight shrinks, or the loss hardly needs it any more.
    """

    fall: Literal["cube", "factor"] = "cube"
    """How the number of open gates falls: as a cube, or by a constant factor; not for max_drop."""

    def __new__(cls, *_: Any, **options: Any) -> Target:
        """Answers a common slip before `__init__` refuses it without a word of help."""
        if (sparsity := options.get("sparsity")) is not None:
            hint = f"keep={1 - sparsity:g}" if isinstance(sparsity, int | float) else "keep="
            raise TypeError(f"Target takes the fraction to keep, not the sparsity: write {hint}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        asked = [name for name in WISHES if getattr(self, name) is not None]
        if len(asked) > 1:
            raise ValueError(
                f"a target is one of {', '.join(WISHES)}, got {' and '.join(asked)}; "
                "leave all but one out"
            )
        self._check_sizes()
        self._check_prices()
        if self.baseline is not None and not (
            self.max_drop is not None and 0 < self.baseline <= 100
        ):
            raise ValueError(
                f"baseline is an accuracy in percent for max_drop, got {self.baseline} with {asked}"
            )
        self._check_way()

    def __hash__(self) -> int:
        return hash(repr(self))  # a mapping has no hash

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in WISHES)

    def __str__(self) -> str:
        if isinstance(self.keep, Mapping):
            return f"keep={', '.join(f'{name} {share:g}' for name, share in self.keep.items())}"
        return f"{self.wish}={getattr(self, self.wish)}" if self else "no target"

    @property
    def wish(self) -> str:
        """The name of the goal; empty if there is none."""
        return next((name for name in WISHES if getattr(self, name) is not None), "")

    @property
    def groups(self) -> dict[str, Target]:
        """The target of every group of layers, by name pattern; one for all unless they differ."""
        if not isinstance(self.keep, Mapping):
            return {"*": self}
        return {pattern: replace(self, keep=share) for pattern, share in self.keep.items()}

    def _check_sizes(self) -> None:
        shares = self.keep.values() if isinstance(self.keep, Mapping) else (self.keep,)
        if not shares:
            raise ValueError(
                'keep by name pattern needs at least one pattern, got none; write keep={"*": 0.01}'
            )
        for share in shares:
            if share is not None and not 0 < share <= 1:
                raise ValueError(
                    f"keep is a fraction in (0, 1], got {share}; for 99 % sparsity write keep=0.01"
                )
        if self.weights is not None and self.weights < 1:
            raise ValueError(f"weights is a number of weights, at least 1, got {self.weights}")
        if self.max_drop is not None and not 0 <= self.max_drop < 100:
            raise ValueError(
                f"max_drop is in points of accuracy, from 0 to 100, got {self.max_drop}"
            )
        if self.bytes is not None and self.bytes < 1:
            raise ValueError(f"bytes is the size of a file, at least 1, got {self.bytes}")

    def _check_way(self) -> None:
        if not 0 < self.begin < self.reach <= self.freeze < 1:
            raise ValueError(
                f"0 < begin < reach <= freeze < 1 must hold, got begin={self.begin}, "
                f"reach={self.reach}, freeze={self.freeze}"
            )
        if self.listen and not self:
            raise ValueError(
                f"listen is a part of a target; ask for one of {', '.join(WISHES)} as well"
            )
        if self.listen and self.grade:
            raise ValueError(
                "listen and grade both order the gates at begin; leave one of them out"
            )
        if not 0 <= self.evenly <= 1:
            raise ValueError(f"evenly is in [0, 1], got {self.evenly}")
        if self.fall not in FALLS or (self.fall != "cube" and self.wish not in FALLING):
            raise ValueError(
                f"fall is one of {', '.join(FALLS)}, other than a cube for {', '.join(FALLING)}, "
                f"got {self.fall!r} with {self}"
            )
        if self.travel is not None and not 0 < self.travel < math.inf:
            raise ValueError(f"travel is a finite distance above zero, got {self.travel}")

    def _check_prices(self) -> None:
        if self.price is not None and not 0 <= self.price < math.inf:
            raise ValueError(f"price is a finite number, zero or more, got {self.price}")
        if self.path is not None and not (
            self.path and all(0 <= price < math.inf for price in self.path)
        ):
            raise ValueError(
                f"path is one or more prices, each finite and zero or more, got {self.path}"
            )


@dataclass(frozen=True)
class Found:
    """The price that a target led to, and the weights that are left.

    >>> print(Found("keep=0.1", kept=4000, total=40000, price=7.0, path=(9.0, 7.0), ended=True))
    keep=0.1: 4,000 of 40,000 weights are left (keep 0.10000); the price was 7: ...
    """

    asked: str
    """The goal, such as keep=0.1."""
    kept: int
    """Gated weights that are left."""
    total: int
    """Gated weights."""
    price: float
    """Mean price in nats from the last quarter of the fall to the cut, weighted by gate travel."""
    path: tuple[float, ...]
    """Mean prices in equal parts of the time to the cut: `Target(path=...)` repeats the run
    with the same `travel` and `grade`."""
    ended: bool
    """Whether the exact cut has been made."""
    travel: float = 10.0
    """Distance that a gate with an average gradient travels."""
    graded: bool = False
    """Whether gates were put in the order of their weights."""
    groups: tuple[tuple[str, Found], ...] = ()
    """The same for every group of layers, by name pattern, if they have targets of their own."""

    def __str__(self) -> str:
        if self.groups:
            return "; ".join(
                f"{pattern}: {found.kept:,} of {found.total:,} weights are "
                f"{'left' if found.ended else 'open, not there yet'}"
                for pattern, found in self.groups
            )
        if not self.ended:
            return f"{self.asked}: not there yet, {self.kept:,} of {self.total:,} weights are open"
        price = float(f"{self.price:.3g}")
        text = (
            f"{self.asked}: {self.kept:,} of {self.total:,} weights are left "
            f"(keep {self.kept / self.total:.5f}); the price was {price:g}"
        )
        # The price of graded gates is high while they fall and low after it; no mean stands for it.
        return text if self.graded else f"{text}: Target(price={price:g}) repeats it roughly"

    @property
    def how_to_repeat(self) -> str:
        """The command's flags that follow the path of the price again; empty for groups."""
        if self.groups:
            return ""
        path = " ".join(f"{price:.4g}" for price in self.path)
        return (
            f"--target.path {path} --target.travel {self.travel:.4g} "
            f"--target.grade {self.graded} repeats the run closely"
        )
