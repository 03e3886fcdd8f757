"""Closes all but a number of a member's weights, dead paths first."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.train import empty_network

from .stack import Stack

ROUNDS = 10  # of asking for as many weights more as were found dead
NEAR = 0.002  # how far below the number is near enough


@torch.no_grad()
def cut_(stack: Stack, place: int, example: Tensor) -> None:
    """Leaves a member so many weights as it may keep, in place; those that no output can feel are not among them.

    The lowest gates close first, of equal ones those of the smallest weights. A unit that has become constant gives its
    constant to the biases of those who read it. What closes is closed for good: the gates have stopped.
    """
    most = stack.members[place].most
    assert most is not None
    score = torch.cat([_score(stack, name, place) for name in stack.gated])
    opened = int((score > 0).sum())
    low, high, best = 0, opened + 1, None
    asked = min(most, opened)
    for _ in range(ROUNDS):
        left = _without_dead(stack, place, score.topk(asked).indices, example)
        count = sum(int(torch.count_nonzero(left[name])) for name in stack.gated)
        if count <= most:
            low, best = asked, left
        else:
            high = asked
        if high - low <= 1 or most * (1 - NEAR) <= count <= most:
            break
        # As many more as were found dead; once that was too many, halfway.
        further = asked + most - count
        asked = min(further, high - 1) if low < further and high > opened else (low + high) // 2
    assert best is not None
    _write_(stack, place, best)


def _score(stack: Stack, name: str, place: int) -> Tensor:
    """What to keep first: open gates by height, then by the size of their weights; closed ones below all."""
    each = stack.params[name]
    assert each.gate is not None
    gate, size = (value[place].flatten().double().cpu() for value in (each.gate, each.weight))
    return (gate + 1e-3 * size.abs() / (1 + size.abs())).masked_fill(gate <= 0.5, -1.0)


def _without_dead(stack: Stack, place: int, chosen: Tensor, example: Tensor) -> dict[str, Tensor]:
    """The weights and biases that are left of the chosen ones when dead paths are gone."""
    model = empty_network(stack.members[place].run, stack.num_classes)
    state = {name: each.weight[place].cpu() for name, each in stack.params.items()}
    sizes = [each.weight[place].numel() for each in stack.gated.values()]
    mask = torch.zeros(sum(sizes), dtype=torch.bool).index_fill_(0, chosen, True)
    for name, part in zip(stack.gated, torch.split(mask, sizes), strict=True):
        state[name] = state[name] * part.view_as(state[name])
    model.load_state_dict(state)
    remove_dead_paths(model, example)
    return model.state_dict()


def _write_(stack: Stack, place: int, kept: dict[str, Tensor]) -> None:
    for name, each in stack.params.items():
        if each.gate is None:
            each.weight[place] = kept[name].to(each.weight.device)
        else:
            each.gate[place] *= (kept[name] != 0).to(each.gate.device)
        if each.average is not None:
            each.average[place] = each.weight[place]
