"""The smallest LeNets: taught by dense networks and cut to a given number of weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sparsegate.price import Penalty
from sparsegate_lab.batched import Late, Member
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run
from sparsegate_runtime.registry import Registry

from .student import Student

# Chosen on the validation split; results/lenet-search.json has every setting that was tried and the
# total cost of the search. Differs from the paper:
# 1. The price is adjusted until a given number of weights is left.
# 2. Six dense networks teach.
# LeNet-5 at 300x and 500x also:
# 3. The gates' learning rate is ten times lower, which depends less on chance.
# 4. When the mask freezes, the learning rate restarts with a warm-up and steps like Adam's, without
#    weight decay.
# 5. At 500x images are shifted by one pixel only; the network is too small to learn two. At 300x
#    they are rotated, scaled, sheared and bent once the mask is frozen.
# 6. Two networks are trained for each seed; the one with the lower validation loss is taken.
# 7. Units without a reader are removed for good.
ADAPTED = Late(lr=0.006, weight_decay=0.0, adapt=True, warmup=0.05)


def teachers() -> tuple[Run[Dense], ...]:
    """Six dense LeNet-5."""
    return tuple(
        Run(epochs=30, lr=0.05, weight_decay=5e-4, seed=100 + seed, method=Dense())
        for seed in range(6)
    )


def lenet5_100x() -> Student:
    """LeNet-5 with 100 times fewer weights: 4,305 of 430,500."""
    return _student(4305, 3.33, Run(epochs=150))


def lenet5_300x() -> Student:
    """LeNet-5 with 300 times fewer weights: 1,435 of 430,500."""
    late = dataclasses.replace(ADAPTED, vary=1.0)
    return _smallest(1435, 12.0, Run(epochs=400, shift=2), freeze=0.49, share=0.9, late=late)


def lenet5_500x() -> Student:
    """LeNet-5 with 500 times fewer weights: 861 of 430,500."""
    return _smallest(861, 25.0, Run(epochs=280, shift=1))


def lenet300_68x() -> Student:
    """LeNet-300-100 with 68 times fewer weights: 3,914 of 266,200."""
    return _student(3914, 5.14, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def lenet300_100x() -> Student:
    """LeNet-300-100 with 100 times fewer weights: 2,662 of 266,200."""
    return _student(2662, 9.8, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def _smallest(
    most: int,
    price: float,
    run: Run[Any],
    *,
    freeze: float = 0.7,
    share: float = 0.5,
    late: Late = ADAPTED,
) -> Student:
    method = LearnedGates(penalty=Penalty(count=price), gate_lr=0.3, freeze=freeze)
    run = dataclasses.replace(run, method=method)
    member = Member(run, most=most, share=share, temperature=2.0, shed=True, late=late)
    return Student(member, teachers(), num_candidates=2)


def _student(most: int, price: float, run: Run[Any]) -> Student:
    method = LearnedGates(penalty=Penalty(count=price), freeze=0.75)
    settings = {**vars(run), "method": method}
    return Student(Member(Run(**settings), most=most, share=0.5, temperature=2.0), teachers())


STUDENTS: Registry[Callable[[], Student]] = Registry(
    "recipe with teachers",
    {
        "lenet5-100x": lenet5_100x,
        "lenet5-300x": lenet5_300x,
        "lenet5-500x": lenet5_500x,
        "lenet300-68x": lenet300_68x,
        "lenet300-100x": lenet300_100x,
    },
)
