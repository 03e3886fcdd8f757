"""Closes all but a given number of a member's weights, dead paths first."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsegate.gates import OPEN_ABOVE
from sparsegate.graph import remove_dead_paths
from sparsegate.target import highest
from sparsegate_lab.train import empty_network

from .stack import Stack

ROUNDS = 10  # of asking for as many more weights as were found dead
NEAR = 0.002  # shortfall that is near enough, as a fraction of the number


@torch.no_grad()
def cut_(stack: Stack, index: int, example: Tensor) -> None:
    """Cuts a member to the number of weights that it may keep, in place, none of them dead.

    The lowest gates close first, of equal ones those of the smallest weights. A unit that has
    become constant adds its constant to the biases of its readers. Gates have stopped, so what
    closes stays closed.
    """
    most = stack.members[index].most
    assert most is not None
    keys, sizes = _keys(stack, index)
    num_open = sum(int((key > 0).sum()) for key in keys)
    low, high, best = 0, num_open + 1, None
    asked = min(most, num_open)
    for _ in range(ROUNDS):
        left = _without_dead(stack, index, highest(keys, sizes, asked), example)
        count = sum(int(torch.count_nonzero(left[name])) for name in stack.gated)
        if count <= most:
            low, best = asked, left
        else:
            high = asked
        if high - low <= 1 or most * (1 - NEAR) <= count <= most:
            break
        # As many more as were found dead; once that was too many, halfway.
        further = asked + most - count
        asked = min(further, high - 1) if low < further and high > num_open else (low + high) // 2
    assert best is not None
    _write_(stack, index, best)


def _keys(stack: Stack, index: int) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the order in which to keep weights (open gates, near ties by size), and sizes."""
    keys, sizes = [], []
    for param in stack.gated.values():
        assert param.gate is not None
        gate, size = param.gate[index].double().cpu(), param.weight[index].double().cpu().abs()
        key = (gate + 1e-3 * size / (1 + size)).masked_fill(gate <= OPEN_ABOVE, 0.0)
        keys.append(key.float())
        sizes.append(size.float())
    return keys, sizes


def _without_dead(
    stack: Stack, index: int, masks: list[Tensor], example: Tensor
) -> dict[str, Tensor]:
    """Returns the chosen weights and the biases that remain when dead paths are removed."""
    model = empty_network(stack.members[index].run, stack.num_classes)
    state = {name: param.weight[index].cpu() for name, param in stack.params.items()}
    for name, mask in zip(stack.gated, masks, strict=True):
        state[name] = state[name] * mask
    model.load_state_dict(state)
    remove_dead_paths(model, example)
    return model.state_dict()


def _write_(stack: Stack, index: int, kept: dict[str, Tensor]) -> None:
    for name, param in stack.params.items():
        if param.gate is None:
            param.weight[index] = kept[name].to(param.weight.device)
        else:
            param.gate[index] *= (kept[name] != 0).to(param.gate.device)
        if param.average is not None:
            param.average[index] = param.weight[index]
