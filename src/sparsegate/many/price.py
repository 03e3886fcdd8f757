"""Moves a member's price in the course of training, so that it ends with the number of weights that it may keep."""

from __future__ import annotations

import math

from .member import Member

BEGIN = 0.6  # of the ramp: from there on the number of open gates says where training will end
POWER = 0.66  # a price twice as high leaves 2^-0.66 times as many weights, on LeNet-5 and LeNet-300-100
YET = 0.68  # what is left at the end of those that the price alone would leave where steering begins
MARGIN = 1.03  # a little more than wanted is left to the cut
GAIN = 4.0  # corrections over the whole of the time, each of the full size
LIMITS = (0.1, 10.0)


def steered(factor: float, member: Member, kept: int, progress: float) -> float:
    """The factor on a member's price after an epoch that ended with so many open gates.

    >>> from sparsegate.train import Run
    >>> member = Member(Run(epochs=100), most=1000)
    >>> steered(1.0, member, 5000, 0.5) > 1.0 > steered(1.0, member, 500, 0.5)
    True
    """
    if member.most is None:
        return factor
    method = member.run.method
    begin, end = BEGIN * method.ramp, method.freeze
    if not begin <= progress < end:
        return factor
    paid = min(1.0, progress / method.ramp) if method.ramp else 1.0
    still = YET + (1 - YET) * (progress - begin) / (end - begin)
    error = math.log(max(1, kept) * paid**POWER * still / (MARGIN * member.most))
    epochs = max(1.0, (end - begin) * member.run.epochs)
    moved = factor * math.exp(GAIN / epochs * error / POWER)
    return min(LIMITS[1], max(LIMITS[0], moved))
