"""Steers a member to its number of weights by its price, and cuts what is left over."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sparsegate.gates import OPEN_ABOVE
from sparsegate.graph import remove_dead_paths
from sparsegate.schedule import ramp
from sparsegate.target import fall, highest
from sparsegate_lab.train import empty_network

from .member import Member
from .stack import Stack

# All times are fractions of the time until the gates freeze.
BEGIN, REACH = 0.25, 0.85  # the number of open gates follows a path between these
ABOVE = 2.0  # excess of open gates where the path begins, as a multiple of the wanted number
MARGIN = 1.01  # surplus left to the cut, which also finds dead weights
POWER = 0.66  # twice the price leaves 2^-0.66 times the weights, on LeNet-5 and LeNet-300-100
LAG = 0.06  # time until gates have answered a price
PATIENCE = 0.05  # time until an error is made up for
LARGEST, FASTEST = 0.7, 0.05  # limits of the logarithm of an error, and of its change per epoch
AT_ONCE = 0.5  # largest share of the error that one change makes up for
LIMITS = (0.1, 10.0)  # of the factor on the price


def wanted(member: Member, progress: float) -> float:
    """How many gates of a member are to be open at a moment, from `BEGIN` on.

    The number falls steeply at first, because the last weights matter most, and is reached while
    gates still move.

    >>> from sparsegate_lab.train import Run
    >>> member = Member(Run(), most=1000)
    >>> [round(wanted(member, share * member.freeze)) for share in (0.25, 0.55, 0.85, 1.0)]
    [3030, 1515, 1010, 1010]
    """
    assert member.most is not None
    done = (progress / member.freeze - BEGIN) / (REACH - BEGIN)
    return MARGIN * member.most * fall(done, start=1 + ABOVE, end=1.0, power=2)


def steered(factor: float, member: Member, kept: Sequence[int], progress: float) -> float:
    """The factor on a member's price after an epoch; `kept` are the open gates after each epoch.

    From `BEGIN` on, the price does not follow its ramp any more. It follows the error and the
    change of the error; with the error alone it would oscillate, because gates answer late.

    It differs from the price of a `Target`, which changes within an epoch: the steps of an epoch
    are a recorded CUDA graph, and gates are counted between epochs.

    >>> from sparsegate_lab.train import Run
    >>> member = Member(Run(epochs=100), most=1000)
    >>> steered(1.0, member, [5000, 5000], 0.5) > 1.0 > steered(1.0, member, [500, 500], 0.5)
    True
    """
    if member.most is None or not BEGIN * member.freeze <= progress < member.freeze:
        return factor
    over, epoch = member.run.method.ramp, 1 / member.run.epochs
    error, before = (_error(member, kept[-ago:][0], progress - (ago - 1) * epoch) for ago in (1, 2))
    made_up = min(AT_ONCE, epoch / (PATIENCE * member.freeze)) * _within(LARGEST, error)
    made_up += LAG / PATIENCE * _within(FASTEST, error - before)
    still = ramp(progress, over=over) / ramp(progress + epoch, over=over)
    return min(LIMITS[1], max(LIMITS[0], factor * still * math.exp(made_up / POWER)))


def _error(member: Member, kept: int, progress: float) -> float:
    return math.log(max(1, kept) / wanted(member, progress))


def _within(limit: float, value: float) -> float:
    return max(-limit, min(limit, value))


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
