"""What was tried in the search for small LeNets, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsegate.many import Member
from sparsegate.methods import Dense, LearnedGates
from sparsegate.penalty import Penalty
from sparsegate.train import Run

TEACHERS = [Member(Run(epochs=30, lr=0.05, weight_decay=5e-4, seed=100 + seed, method=Dense())) for seed in range(6)]


def member(
    price: float,
    *,
    gates: dict[str, Any] | None = None,
    share: float = 0.0,
    temperature: float = 1.0,
    average: float = 0.0,
    most: int | None = None,
    **run: Any,
) -> Member:
    """A member by what differs from the recipe `lenet5-method1`."""
    method = LearnedGates(penalty=Penalty(count=price), **{"freeze": 0.75, **(gates or {})})
    return Member(Run(method=method, **run), most, average, share, temperature)


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
}
