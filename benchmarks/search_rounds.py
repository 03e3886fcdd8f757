"""What was tried in the search for small LeNets, round after round."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sparsegate.price import Penalty
from sparsegate_lab.batched import Late, Member
from sparsegate_lab.methods import Dense, LearnedGates
from sparsegate_lab.train import Run

TEACHERS = [
    Member(Run(epochs=30, lr=0.05, weight_decay=5e-4, seed=100 + seed, method=Dense()))
    for seed in range(6)
]


def member(
    price: float,
    *,
    gates: dict[str, Any] | None = None,
    share: float = 0.0,
    temperature: float = 1.0,
    average: float = 0.0,
    most: int | None = None,
    shed: bool = False,
    late: Late | None = None,
    **run: Any,
) -> Member:
    """A member by what differs from the recipe `lenet5-method1`."""
    method = LearnedGates(penalty=Penalty(count=price), **{"freeze": 0.75, **(gates or {})})
    return Member(
        Run(method=method, **run), most, average, share, temperature, shed, late or Late()
    )


def group(prices: Sequence[float], **options: Any) -> list[Member]:
    """One setting at several prices."""
    return [member(price, **options) for price in prices]


FIVE = {"model": "lenet5", "epochs": 48}
THREE = {"model": "lenet300", "epochs": 80}
HALF = {"share": 0.5, "temperature": 2.0}
SIZES = (4305, 1435, 861)  # 100, 300 and 500 times fewer than 430 500


def three_sizes(prices: Sequence[float], **options: Any) -> list[Member]:
    """One setting at the three sizes of LeNet-5 that are wanted."""
    return [member(price, most=most, **options) for price, most in zip(prices, SIZES, strict=True)]


AGAIN = Late(lr=0.01, weight_decay=0.0)


def small(
    price: float, most: int = 861, lr: float = 0.03, gate_lr: float = 3.0, **options: Any
) -> Member:
    """A LeNet-5 of the third round; it sheds units."""
    gates = {"gate_lr": gate_lr, **options.pop("gates", {})}
    settings = {**FIVE, "epochs": 80, **HALF, "late": AGAIN, **options}
    return member(price, most=most, lr=lr, gates=gates, shed=True, **settings)


THIRD = [
    small(35, late=Late()),
    *(small(35, seed=seed) for seed in (0, 1)),
    *(small(35, gate_lr=1.0, seed=seed) for seed in (0, 1)),
    small(35, gate_lr=0.3),
    *(small(35, lr=0.015, seed=seed) for seed in (0, 1)),
    *(small(35, lr=0.015, gate_lr=1.0, seed=seed) for seed in (0, 1)),
    small(35, lr=0.0075, gate_lr=1.0),
    small(35, lr=0.015, gate_lr=1.0, gates={"ramp": 0.7}),
    small(35, gate_lr=1.0, gates={"start": 1.0}),
    small(18),
    small(18, lr=0.015, gate_lr=1.0),
    small(35, lr=0.015, gate_lr=1.0, temperature=4.0),
    small(30, lr=0.015, gate_lr=1.0, temperature=1.0),
    small(40, lr=0.015, gate_lr=1.0, share=0.75),
    small(35, lr=0.015, gate_lr=1.0, shift=1),
    small(35, lr=0.015, gate_lr=1.0, weight_decay=0.0),
    small(35, lr=0.015, gate_lr=1.0, weight_decay=3e-4),
    small(35, lr=0.02, gate_lr=1.0, momentum=0.95),
    *(
        small(15, most=1435, lr=lr, gate_lr=gate_lr)
        for lr, gate_lr in ((0.03, 3.0), (0.03, 1.0), (0.015, 3.0), (0.015, 1.0))
    ),
]
LARGER = [
    small(2.0, most=4305, lr=lr, gate_lr=gate_lr, **options)
    for lr, gate_lr, options in (
        (0.03, 3.0, {}),
        (0.03, 3.0, {"late": Late()}),
        (0.03, 10.0, {}),
        (0.03, 1.0, {}),
        (0.015, 3.0, {}),
        (0.03, 3.0, {"temperature": 1.0}),
        (0.03, 3.0, {"shift": 1}),
    )
]


def late(lr: float, weight_decay: float = 0.0, *, adapt: bool = False, **options: Any) -> Member:
    """A way to train the weights of a mask that another round has found; its gates do not move."""
    still = {"gate_lr": 0.0, "freeze": 1e-12, "ramp": 0.0}
    settings = {**FIVE, "epochs": 40, **HALF, **options}
    return member(1.0, gates=still, late=Late(lr, weight_decay, adapt), most=1435, **settings)


LATE = [
    *(late(lr) for lr in (0.01, 0.03, 0.06, 0.12)),
    late(0.03, 1e-4),
    *(late(lr, adapt=True) for lr in (0.001, 0.003, 0.01)),
    late(0.03, momentum=0.95),
    late(0.03, average=0.999),
    late(0.03, share=0.0),
    late(0.03, share=1.0),
    late(0.03, temperature=1.0),
    late(0.03, temperature=4.0),
    late(0.03, shift=1),
]


SLOW, ADAPTED = {"gate_lr": 0.3, "freeze": 0.7}, Late(0.006, 0.0, adapt=True, warmup=0.05)


def slow(
    most: int,
    seed: int,
    *,
    late: Late = ADAPTED,
    gates: dict[str, Any] | None = None,
    shift: int = 1,
) -> Member:
    """A LeNet-5 of the fourth round, in which the number of open gates follows a path.

    Seeds of no other round.
    """
    price = {861: 30.0, 1435: 15.0}[most]
    return small(
        price, most, gates={**SLOW, **(gates or {})}, late=late, shift=shift, seed=seed, epochs=300
    )


FOURTH = [
    *(slow(861, seed) for seed in (50, 51, 52)),
    *(slow(861, seed, shift=0) for seed in (50, 51, 52)),
    *(slow(861, seed, gates={"gate_lr": 1.0}) for seed in (50, 51)),
    *(slow(861, seed, gates={"freeze": 0.55}) for seed in (50, 51)),
    *(slow(861, seed, late=Late(0.003, 0.0, adapt=True, warmup=0.05)) for seed in (50, 51)),
    slow(861, 50, late=Late(0.012, 0.0, adapt=True, warmup=0.05)),
    *(slow(861, seed, late=Late()) for seed in (50, 51)),
    *(slow(1435, seed, shift=shift) for shift in (2, 1, 0) for seed in (50, 51)),
]


def of_epochs(members: Sequence[Member], epochs: int) -> list[Member]:
    """The members with another number of epochs."""
    return [
        dataclasses.replace(each, run=dataclasses.replace(each.run, epochs=epochs))
        for each in members
    ]


ROUNDS: dict[str, dict[str, list[Member]]] = {
    "first": {
        "lenet300": [
            *group([1, 2, 4, 8], shift=0, **THREE),
            *group([1, 2, 4, 8], shift=1, **THREE),
            *group([2, 4, 8], shift=2, **THREE),
            *group([2, 4, 8, 16], shift=0, **HALF, **THREE),
            *group([2, 4, 8, 16], shift=1, **HALF, **THREE),
            *group([4, 8, 16, 32], shift=1, share=0.9, temperature=4.0, **THREE),
            *group([2, 4, 8], shift=1, lr=0.1, **THREE),
            *group([2, 4, 8], shift=1, share=0.9, temperature=1.0, **THREE),
            *group([2, 4, 8], shift=1, gates={"gate_lr": 10.0}, **THREE),
        ],
    },
    "second": {
        "lenet300": [
            member(price, most=most, shift=1, lr=lr, model="lenet300", epochs=70, **HALF)
            for lr, prices in ((0.03, (6, 11)), (0.06, (5, 9)), (0.1, (4, 7.5)))
            for price, most in zip(prices, (3914, 2662), strict=True)
        ],
        "lenet5": [
            *three_sizes((2.4, 12, 22), **FIVE),
            *three_sizes((4, 19, 35), **HALF, **FIVE),
            *three_sizes((4, 19, 35), seed=1, **HALF, **FIVE),
            *three_sizes((5, 24, 43), share=0.75, temperature=2.0, **FIVE),
            *three_sizes((2.4, 12, 22), share=0.5, temperature=1.0, **FIVE),
            *three_sizes((3.5, 16, 29), lr=0.06, **HALF, **FIVE),
            *three_sizes((3, 14, 25), lr=0.1, **HALF, **FIVE),
            *three_sizes((4, 18, 33), shift=1, **HALF, **FIVE),
            *three_sizes((4, 19, 35), weight_decay=0.0, **HALF, **FIVE),
            *three_sizes((4, 19, 35), gates={"gate_lr": 10.0}, **HALF, **FIVE),
        ],
    },
    "third": {"lenet5": THIRD, "late": LATE, "lenet5 100x": LARGER},
    "fourth": {"lenet5": FOURTH},
}
