"""Finds the few weights of a sparse transformer that one behavior needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from train import LENGTH, Transformer

LOST = 0.1  # nats of the behavior's loss that a circuit may cost
ROUNDS = 14


@dataclass(frozen=True)
class Behaviour:
    """Something that the network does: after a text that ends in this, it writes that."""

    name: str
    ends: str
    then: str


@dataclass(frozen=True)
class Circuit:
    """The weights that a behavior needs, and how well it works with all of them and with these."""

    behaviour: Behaviour
    weights: dict[str, Tensor]
    probability: float
    probability_alone: float
    num_examples: int

    @property
    def num_weights(self) -> int:
        """How many weights are in it."""
        return sum(int(weight.count_nonzero()) for weight in self.weights.values())


def examples(behaviour: Behaviour, letters: str, text: Tensor, count: int) -> Tensor:
    """Pieces of a text that end in what starts the behavior, where it is the right thing to do."""
    wanted = [letters.index(letter) for letter in behaviour.ends + behaviour.then]
    size = len(wanted)
    windows = text.unfold(0, size, 1)
    ends = (windows == torch.tensor(wanted)).all(1).nonzero().flatten() + size - 1
    ends = ends[ends >= LENGTH][:count]
    if not len(ends):
        raise ValueError(f"the text never has {behaviour.then!r} after {behaviour.ends!r}")
    return torch.stack([text[end - LENGTH : end] for end in ends])


def find(model: Transformer, behaviour: Behaviour, text: Tensor, count: int = 64) -> Circuit:
    """Removes all weights that the behavior does not need, the least important first."""
    pieces = examples(behaviour, model.letters, text, count)
    answer = torch.full((len(pieces),), model.letters.index(behaviour.then))
    matrices = {name: each for name, each in model.named_parameters() if each.ndim > 1}
    all_weights = {name: each.detach().clone() for name, each in matrices.items()}

    def loss() -> Tensor:
        return F.cross_entropy(model(pieces)[:, -1], answer)

    whole = loss().item()
    for number in range(ROUNDS):
        _remove_(matrices, loss, whole + LOST * (number + 1) / ROUNDS)
    alone = loss().item()
    circuit = {name: each.detach().clone() for name, each in matrices.items()}
    with torch.no_grad():
        for name, each in matrices.items():
            each.copy_(all_weights[name])
    chances = [torch.exp(torch.tensor(-value)).item() for value in (whole, alone)]
    return Circuit(behaviour, circuit, chances[0], chances[1], len(pieces))


def _remove_(matrices: dict[str, nn.Parameter], loss: Callable[[], Tensor], highest: float) -> None:
    """Removes as many weights as the loss allows, by the first-order change that each makes."""
    grads = torch.autograd.grad(loss(), list(matrices.values()))
    flat = torch.cat([each.detach().flatten() for each in matrices.values()])
    change = torch.cat([grad.flatten() for grad in grads]).mul(flat).abs()
    order = change.masked_fill(flat == 0, torch.inf).argsort()[: int(flat.count_nonzero())]
    low, high = 0, (len(order) + 1) // 2  # then the others are ranked again
    while low < high:  # the largest number whose removal keeps the loss
        middle = (low + high + 1) // 2
        _write_(matrices, flat.index_fill(0, order[:middle], 0.0))
        low, high = (middle, high) if loss().item() <= highest else (low, middle - 1)
    _write_(matrices, flat.index_fill(0, order[:low], 0.0))


@torch.no_grad()
def _write_(matrices: dict[str, nn.Parameter], flat: Tensor) -> None:
    sizes = [each.numel() for each in matrices.values()]
    for each, values in zip(matrices.values(), flat.split(sizes), strict=True):
        each.copy_(values.view_as(each))
