"""The smallest LeNets: members of many, with a number of weights to end with and a teacher to listen to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsegate.price import Penalty
from sparsegate_lab.batched import Late, Member
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run
from sparsegate_runtime.registry import Registry

# Chosen on the validation split; results/lenet-search.json has every row and what the search cost in all.
# All differ from the paper: 1. the price is moved towards a number of weights. 2. six dense networks teach.
# LeNet-5 at 300x and 500x also: 3. the gates are ten times slower, which loses less to chance. 4. when the mask stands
# still, the learning rate begins again and rises from zero, without decay and with steps like Adam's. 5. at 500x images
# move by one pixel only: it cannot learn what two pixels ask. At 300x they are turned, stretched, slanted and bent when
# the mask stands still. 6. two networks are trained for every seed, and the one with the lower loss on the validation
# split is taken. 7. units that nobody reads leave for good.
APART = 1000  # between the seeds of a field
ADAPTED = Late(lr=0.006, weight_decay=0.0, adapt=True, warmup=0.05)


@dataclass(frozen=True)
class Pupil:
    """A member of many and the networks that teach it, together as one."""

    member: Member
    teachers: tuple[Run[Any], ...]
    candidates: int = 1
    """How many networks are trained for a seed; the one with the lowest loss on the validation split is taken."""

    def field(self, seed: int) -> tuple[Member, ...]:
        """The candidates of a seed, of which the first has the seed itself.

        >>> [member.run.seed for member in Pupil(Member(Run()), (), candidates=3).field(4)]
        [4, 1004, 2004]
        """
        seeds = [seed + APART * number for number in range(self.candidates)]
        return tuple(
            dataclasses.replace(self.member, run=dataclasses.replace(self.member.run, seed=s))
            for s in seeds
        )


def teachers() -> tuple[Run[Dense], ...]:
    """Six dense LeNet-5."""
    return tuple(
        Run(epochs=30, lr=0.05, weight_decay=5e-4, seed=100 + seed, method=Dense())
        for seed in range(6)
    )


def lenet5_100x() -> Pupil:
    """LeNet-5 with 100 times fewer weights: 4,305 of 430,500."""
    return _pupil(4305, 3.33, Run(epochs=150))


def lenet5_300x() -> Pupil:
    """LeNet-5 with 300 times fewer weights: 1,435 of 430,500."""
    late = dataclasses.replace(ADAPTED, vary=1.0)
    return _smallest(1435, 12.0, Run(epochs=400, shift=2), freeze=0.49, share=0.9, late=late)


def lenet5_500x() -> Pupil:
    """LeNet-5 with 500 times fewer weights: 861 of 430,500."""
    return _smallest(861, 25.0, Run(epochs=280, shift=1))


def lenet300_68x() -> Pupil:
    """LeNet-300-100 with 68 times fewer weights: 3,914 of 266,200."""
    return _pupil(3914, 5.14, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def lenet300_100x() -> Pupil:
    """LeNet-300-100 with 100 times fewer weights: 2,662 of 266,200."""
    return _pupil(2662, 9.8, Run(model="lenet300", epochs=200, lr=0.06, shift=1))


def _smallest(
    most: int,
    price: float,
    run: Run[Any],
    *,
    freeze: float = 0.7,
    share: float = 0.5,
    late: Late = ADAPTED,
) -> Pupil:
    method = LearnedGates(penalty=Penalty(count=price), gate_lr=0.3, freeze=freeze)
    run = dataclasses.replace(run, method=method)
    member = Member(run, most=most, share=share, temperature=2.0, shed=True, late=late)
    return Pupil(member, teachers(), candidates=2)


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
