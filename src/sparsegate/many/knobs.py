"""What changes from step to step for each member, as a table that a device reads by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.methods import LearnedGates
from sparsegate.schedule import cosine, ramp

from .member import Member

PRICE = 2
NUM_KNOBS = 4  # learning rate, learning rate of the gates, price, share of this step in the average


def knob_table(
    members: Sequence[Member], epoch: int, steps: int, factors: Sequence[float] | None = None
) -> Float[Tensor, "step knob member"]:
    """The knobs of one epoch's steps; the factors are on the members' prices."""
    total = members[0].run.epochs * steps
    moments = [number / total for number in range(epoch * steps, (epoch + 1) * steps)]
    columns = [[_knobs(member, moment, 1 / total) for moment in moments] for member in members]
    table = torch.tensor(columns, dtype=torch.float64).permute(1, 2, 0)
    if factors is not None:
        table[:, PRICE] *= torch.tensor(factors, dtype=torch.float64)
    return table.float().contiguous()


def _knobs(member: Member, progress: float, step: float) -> tuple[float, float, float, float]:
    run, method = member.run, member.run.method
    lr = run.lr * method.lr_factor(progress)
    blend = _blend(member, progress, step)
    if not isinstance(method, LearnedGates):
        return lr, 0.0, 0.0, blend
    return lr, method.gate_lr * cosine(progress, until=method.freeze), ramp(progress, over=method.ramp), blend


def _blend(member: Member, progress: float, step: float) -> float:
    """One, so that the average is the weights themselves, until they are averaged."""
    begun = progress - member.freeze >= step / 2
    return 1 - member.average if begun and member.average else 1.0
