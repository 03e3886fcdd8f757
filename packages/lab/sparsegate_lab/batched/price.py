"""Steers a member's price during training, so that it ends with the number of weights to keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsegate.schedule import ramp
from sparsegate.target import fall

from .member import Member

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
