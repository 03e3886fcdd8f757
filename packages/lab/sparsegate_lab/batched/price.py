"""Moves a member's price in the course of training, so that it ends with the number of weights that it may keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsegate.schedule import ramp

from .member import Member

BEGIN, REACH = (
    0.25,
    0.85,
)  # of the time until the gates freeze: the number of open gates follows a path between these
ABOVE = 2.0  # at the beginning of the path so many times the wanted number are open beside it
MARGIN = 1.01  # a little more than wanted is left to the cut, which also finds weights that no output can feel
POWER = (
    0.66  # a price twice as high leaves 2^-0.66 times as many weights, on LeNet-5 and LeNet-300-100
)
LAG, PATIENCE = (
    0.06,
    0.05,
)  # of that time: until gates have answered a price, and until an error is made up for
LARGEST, FASTEST = (
    0.7,
    0.05,
)  # logarithms: no error counts for more, nor does its change in one epoch
AT_ONCE = 0.5  # of the error, at the most, is made up for by one change
LIMITS = (0.1, 10.0)


def wanted(member: Member, progress: float) -> float:
    """How many gates of a member with a number to keep are to be open at a moment, from `BEGIN` on.

    It falls fast at first: the last weights are the dear ones. The number is reached while gates still move well.

    >>> from sparsegate_lab.train import Run
    >>> member = Member(Run(), most=1000)
    >>> [round(wanted(member, share * member.freeze)) for share in (0.25, 0.55, 0.85, 1.0)]
    [3030, 1515, 1010, 1010]
    """
    assert member.most is not None
    done = (progress / member.freeze - BEGIN) / (REACH - BEGIN)
    return MARGIN * member.most * (1 + ABOVE * (1 - min(1.0, max(0.0, done))) ** 2)


def steered(factor: float, member: Member, kept: Sequence[int], progress: float) -> float:
    """The factor on a member's price after an epoch; `kept` has the open gates at the end of every epoch so far.

    From `BEGIN` on the price no longer rises by itself. It follows the error and the error's change: by the error
    alone it would swing, since slow gates answer late.

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
