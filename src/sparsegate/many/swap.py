"""Lets weights change places late: those that matter least leave, others come where the loss would fall most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from sparsegate.schedule import cosine

from .member import Member
from .shrinking import Link
from .stack import Stack
from .update import Stacked

BATCHES = 100  # that gradients are summed over
UNTIL = 0.6  # of the time that is left when the gates froze; what has come must still learn


class Slopes(NamedTuple):
    """The gradients of a parameter over some batches, those of closed weights too."""

    total: Float[Tensor, "member *shape"]
    square: Float[Tensor, "member *shape"]
    """The sum of their squares."""


def swap_share(member: Member, epoch: int) -> float:
    """The fraction of a member's weights that change places at the beginning of an epoch, counted from zero.

    >>> from sparsegate.many import Late
    >>> from sparsegate.methods import Dense
    >>> from sparsegate.train import Run
    >>> member = Member(Run(epochs=10, method=Dense()), late=Late(swap=0.1))
    >>> [round(swap_share(member, epoch), 3) for epoch in range(8)]
    [0.0, 0.093, 0.075, 0.05, 0.025, 0.007, 0.0, 0.0]
    """
    begin, epochs = member.frozen_at, member.run.epochs
    if epoch <= begin:  # no weight has learned anything yet since the others left
        return 0.0
    return member.late.swap * cosine((epoch - begin) / (epochs - begin), until=UNTIL)


@torch.no_grad()
def swap_(stack: Stack, slopes: dict[str, Slopes], links: Sequence[Link], shares: Sequence[float]) -> None:
    """Closes a share of each member's open gates and opens as many others, in place.

    Those leave whose square, times that of their gradients, is least: about what the loss would rise. Those come, at
    zero, whose gradients have the largest sum, and beside them as many as the member has too few. None comes where a
    unit does not depend on the image, since a bias does the same.
    """
    parts = {name: each for name, each in stack.active.items() if each.gate is not None}
    opened = {name: _opened(each) for name, each in parts.items()}
    reached = _reached(opened, links)
    risen = {name: (each.weight.square() * slopes[name].square) for name, each in parts.items()}
    rise = _rows([risen[name].masked_fill(~opened[name], torch.inf) for name in parts])
    fall = _rows([slopes[name].total.abs() * (~opened[name] & reached[name]) for name in parts])
    leaving, coming = _counts(stack, rise.isfinite().sum(1), (fall > 0).sum(1), shares)
    sizes = [each.weight[0].numel() for each in parts.values()]
    gone, come = (torch.split(each, sizes, 1) for each in (_first(rise, leaving), _first(-fall, coming)))
    for each, off, on in zip(parts.values(), gone, come, strict=True):
        _move_(each, off.view_as(each.weight), on.view_as(each.weight))


def _opened(each: Stacked) -> Bool[Tensor, "member *shape"]:
    assert each.gate is not None
    return each.gate > 0.5


def _reached(opened: dict[str, Tensor], links: Sequence[Link]) -> dict[str, Bool[Tensor, "member *shape"]]:
    """Where weights read something that depends on the image; the inputs that no link is known for do."""
    found = {name: torch.ones_like(each) for name, each in opened.items()}
    for link in links:
        if (own := opened.get(f"{link.layer}.weight")) is None:
            continue
        depends = own.flatten(2).any(2)
        for reader in (f"{layer}.weight" for layer in link.readers if f"{layer}.weight" in found):
            members, units = found[reader].shape[:2]
            found[reader].view(members, units, depends.shape[1], -1).logical_and_(depends[:, None, :, None])
    return found


def _counts(
    stack: Stack, opened: Int64[Tensor, " member"], able: Int64[Tensor, " member"], shares: Sequence[float]
) -> tuple[Int64[Tensor, " member"], Int64[Tensor, " member"]]:
    """How many weights of each member leave, and how many come: as many, and those that it has too few."""
    share = torch.tensor(shares, dtype=torch.float64, device=opened.device)
    leaving = torch.minimum((share * opened).long(), able)
    most = torch.tensor([member.most or 0 for member in stack.members], device=opened.device)
    missing = (most - opened).clamp(min=0) * (share > 0)
    return leaving, torch.minimum(leaving + missing, able)


def _rows(parts: Sequence[Tensor]) -> Float[Tensor, "member all"]:
    return torch.cat([part.flatten(1) for part in parts], 1)


def _first(values: Float[Tensor, "member all"], count: Int64[Tensor, " member"]) -> Bool[Tensor, "member all"]:
    """The places of so many of each member's lowest values."""
    order = values.argsort(dim=1, stable=True)
    among = torch.arange(values.shape[1], device=values.device) < count[:, None]
    return torch.zeros_like(among).scatter(1, order, among)


def _move_(each: Stacked, off: Bool[Tensor, "member *shape"], on: Bool[Tensor, "member *shape"]) -> None:
    """Closes and opens gates, in place; what has come knows the size of the others' gradients, not its own."""
    assert each.gate is not None
    if each.square is not None:
        kept, dims = _opened(each), tuple(range(1, each.square.ndim))
        usual = (each.square * kept).sum(dims, keepdim=True) / kept.sum(dims, keepdim=True).clamp(min=1)
        each.square.copy_(torch.where(on, usual, each.square))
    each.gate.masked_fill_(off, 0.0).masked_fill_(on, 1.0)
    for value in (each.weight, each.speed, each.average):
        if value is not None:
            value.masked_fill_(off | on, 0.0)
