"""Tabulates the settings that change from step to step, for the device to read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.schedule import cosine, ramp
from sparsegate_lab.methods import LearnedGates

from .member import Member
from .update import MEMORY

PRICE = 2
# Learning rate, gates' learning rate, price, blend of the average, weight decay, adapt.
NUM_KNOBS = 6


def knob_table(
    members: Sequence[Member], epoch: int, steps: int, factors: Sequence[float] | None = None
) -> Float[Tensor, "step knob member"]:
    """Returns the settings of one epoch's steps; the factors multiply the members' prices."""
    total = members[0].run.epochs * steps
    moments = [number / total for number in range(epoch * steps, (epoch + 1) * steps)]
    columns = [[_knobs(member, moment, 1 / total) for moment in moments] for member in members]
    table = torch.tensor(columns, dtype=torch.float64).permute(1, 2, 0)
    if factors is not None:
        table[:, PRICE] *= torch.tensor(factors, dtype=torch.float64)
    return table.float().contiguous()


def _knobs(member: Member, progress: float, step: float) -> tuple[float, ...]:
    method = member.run.method
    lr, decay, adapt = _late(member, progress, step)
    others = (_blend(member, progress, step), decay, adapt)
    if not isinstance(method, LearnedGates):
        return lr, 0.0, 0.0, *others
    return (
        lr,
        method.gate_lr * cosine(progress, until=method.freeze),
        ramp(progress, over=method.ramp),
        *others,
    )


def _late(member: Member, progress: float, step: float) -> tuple[float, float, float]:
    """Returns learning rate, weight decay, and Adam's bias correction."""
    run, late, begin = member.run, member.late, member.frozen_at / member.run.epochs
    lr, decay = run.lr * cosine(progress), run.weight_decay
    if progress - begin < -step / 2:  # rounding must not move the moment by a step
        return lr, decay, 0.0
    if late.lr is not None:
        rise = ramp(progress - begin, over=late.warmup * (1 - begin))
        lr = late.lr * rise * cosine(progress - begin, until=1 - begin)
    if late.weight_decay is not None:
        decay = late.weight_decay
    taken = round((progress - begin) / step) + 1
    return lr, decay, 1 / (1 - MEMORY**taken) if late.adapt else 0.0


def _blend(member: Member, progress: float, step: float) -> float:
    """Returns the share of this step's weights in the average; one until averaging begins."""
    begun = progress - member.freeze >= step / 2
    return 1 - member.average if begun and member.average else 1.0
