"""Closes all but a number of a member's weights, dead paths first."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsegate.compress import remove_dead_paths
from sparsegate.train import empty_network

from .stack import Stack

ROUNDS = 4  # of opening as many weights more as were found dead


@torch.no_grad()
def cut_(stack: Stack, place: int, example: Tensor) -> None:
    """Leaves a member so many weights as it may keep, in place; those that no output can feel are not among them.

    The lowest gates close first, of equal ones those of the smallest weights. A unit that has become constant gives its
    constant to the biases of those who read it. What closes is closed for good: the gates have stopped.
    """
    member = stack.members[place]
    assert member.most is not None
    names = list(stack.gated)
    score = torch.cat([_score(stack, name, place) for name in names])
    best, asked = _without_dead(stack, place, _largest(score, member.most), example), member.most
    for _ in range(ROUNDS):
        asked += member.most - _count(best, names)
        more = _without_dead(stack, place, _largest(score, asked), example)
        if _count(more, names) > member.most:
            break
        best = more
    _write_(stack, place, best)


def _score(stack: Stack, name: str, place: int) -> Tensor:
    """What to keep first: open gates by height, then by the size of their weights; closed ones below all."""
    each = stack.params[name]
    assert each.gate is not None
    gate, size = (value[place].flatten().double().cpu() for value in (each.gate, each.weight.abs()))
    return torch.where(gate > 0.5, gate + 1e-3 * size / (1 + size), -1.0)


def _largest(score: Tensor, number: int) -> Tensor:
    """A mask over all gated weights of the open ones with the largest scores."""
    number = min(number, int((score > 0).sum()))
    mask = torch.zeros_like(score, dtype=torch.bool)
    mask[score.topk(number).indices] = True
    return mask


def _without_dead(stack: Stack, place: int, mask: Tensor, example: Tensor) -> dict[str, Tensor]:
    """The weights and biases that are left under a mask when dead paths are gone."""
    model = empty_network(stack.members[place].run, stack.num_classes)
    state = {name: each.weight[place].cpu() for name, each in stack.params.items()}
    parts = mask.split([each.weight[place].numel() for each in stack.gated.values()])
    for name, part in zip(stack.gated, parts, strict=True):
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


def _count(state: dict[str, Tensor], names: list[str]) -> int:
    return sum(int(torch.count_nonzero(state[name])) for name in names)
