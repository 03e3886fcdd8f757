"""The smallest LeNets: members of many, with a number of weights to end with and a teacher to listen to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsegate.many import Member
from sparsegate.methods import Dense, LearnedGates
from sparsegate.penalty import Penalty
from sparsegate.registry import Registry
from sparsegate.train import Run

# Chosen on the validation split: of 32 and 6 settings of LeNet-300-100 and 10 of LeNet-5 at three sizes, one seed each
# but for the one that was taken; results/lenet-search.json has every row.


@dataclass(frozen=True)
class Pupil:
    """A member of many and the networks that teach it, together as one."""

    member: Member
    teachers: tuple[Run[Any], ...]


def teachers() -> tuple[Run[Dense], ...]:
    """Six dense LeNet-5."""
    return tuple(Run(epochs=30, lr=0.05, weight_decay=5e-4, seed=100 + seed, method=Dense()) for seed in range(6))


def lenet5_100x() -> Pupil:
    """LeNet-5 with 100 times fewer weights: 4,305 of 430,500."""
    return _pupil(4305, 3.33, Run(epochs=150))


def lenet5_300x() -> Pupil:
    """LeNet-5 with 300 times fewer weights: 1,435 of 430,500."""
    return _pupil(1435, 21.5, Run(epochs=150))


def lenet5_500x() -> Pupil:
    """LeNet-5 with 500 times fewer weights: 861 of 430,500."""
    return _pupil(861, 64.2, Run(epochs=150))


def lenet300_68x() -> Pupil:
    """LeNet-300-100 with 68 times fewer weights: 3,914 of 266,200."""
    return _pupil(3914, 5.14, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def lenet300_100x() -> Pupil:
    """LeNet-300-100 with 100 times fewer weights: 2,662 of 266,200."""
    return _pupil(2662, 9.8, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def _pupil(most: int, price: float, run: Run[Any]) -> Pupil:
    method = LearnedGates(penalty=Penalty(count=price), freeze=0.75)
    settings = {**vars(run), "method": method}
    return Pupil(Member(Run(**settings), most=most, share=0.5, temperature=2.0), teachers())


PUPILS: Registry[Callable[[], Pupil]] = Registry(
    "recipe with a teacher",
    {
        "lenet5-100x": lenet5_100x,
        "lenet5-300x": lenet5_300x,
        "lenet5-500x": lenet5_500x,
        "lenet300-68x": lenet300_68x,
        "lenet300-100x": lenet300_100x,
    },
)
