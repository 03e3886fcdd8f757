"""Removes units without readers from the steps of all members, so that they cost nothing."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from sparsegate.graph import Example, Follow, capture, layer_name
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import empty_network

from .stack import MOVED, Stack
from .update import Stacked

WORTH = (
    0.4  # of the elements: recording the steps anew takes seconds, so it must leave at most this
)
WORTH_AT_LAST = 0.8  # the same, once the mask is frozen
ROUND = 16  # widths are multiples: kernels are compiled for few shapes, which fit matrix units


class Link(NamedTuple):
    """A layer's units and the places where they are read."""

    layer: str
    readers: tuple[str, ...]
    units: int


class Shrinking:
    """Small copies of all parameters, on which steps are taken; full ones are updated each epoch.

    While gates move, a unit without readers can get readers again. It is removed then only if all
    members ask for that. Once the mask is frozen, removing it changes nothing. All members have the
    width of the widest one; narrower ones are padded with units without readers.
    """

    def __init__(self, stack: Stack, example: Example) -> None:
        self.stack = stack
        self.shed = all(member.shed for member in stack.members)
        methods = [member.run.method for member in stack.members]
        known = all(isinstance(each, LearnedGates) and each.draw == "threshold" for each in methods)
        # Dead paths are removed at the end only for members with a number of weights to keep.
        known = known and all(member.most is not None for member in stack.members)
        self.links = _links(stack, example) if known else []
        self.places: dict[str, tuple[Tensor, ...]] = {}

    @torch.no_grad()
    def shrunk_(self, *, frozen: bool, cut: bool) -> bool:
        """Shrinks the steps' parameters in place if allowed and worthwhile; returns whether it did.

        After a cut of the whole parameters the small ones are made anew in any case.
        """
        if not self.links or not (frozen or self.shed):
            return False
        chosen = {link.layer: _filled(self._live(link)) for link in reversed(self.links)}
        places = self._places(chosen)
        size = sum(_size(self.stack.params[name], at) for name, at in places.items())
        worth = size <= (WORTH_AT_LAST if frozen else WORTH) * self._size()
        if not worth and not (cut and self.places):
            self._close_()
            return False
        self.places = places
        self.stack.active = {
            name: _part(each, places[name]) for name, each in self.stack.params.items()
        }
        return True

    @torch.no_grad()
    def write_back_(self) -> None:
        """Copies what the steps have changed to the full parameters, in place."""
        for name, at in self.places.items():
            for part in MOVED:
                if (small := getattr(self.stack.active[name], part)) is not None:
                    getattr(self.stack.params[name], part)[at] = small

    def _close_(self) -> None:
        """Closes gates in the small parameters that were closed in the full ones, in place."""
        for name, at in self.places.items():
            gate, whole = self.stack.active[name].gate, self.stack.params[name].gate
            if gate is not None and whole is not None:
                gate.copy_(whole[at])

    def _size(self) -> int:
        return sum(each.weight.numel() for each in self.stack.active.values())

    def _live(self, link: Link) -> Bool[Tensor, "member unit"]:
        """Returns the units with readers; closes the gates of other units' weights, in place."""
        live = torch.stack(
            [_read(self.stack.params[f"{name}.weight"], link.units) for name in link.readers]
        ).any(0)
        gate = self.stack.params[f"{link.layer}.weight"].gate
        if gate is not None:
            gate *= live.view(*live.shape, *[1] * (gate.ndim - 2))
        return live

    def _places(
        self, chosen: dict[str, Int64[Tensor, "member some"]]
    ) -> dict[str, tuple[Tensor, ...]]:
        """Returns where the units' elements are in each parameter: member, unit and input."""
        sources = {reader: link.layer for link in self.links for reader in link.readers}
        made: dict[str, tuple[Tensor, ...]] = {}
        for name, each in self.stack.params.items():
            layer, _, kind = name.rpartition(".")
            members, units = each.weight.shape[:2]
            rows = chosen.get(layer, _all(members, units, each.weight.device))
            member = torch.arange(members, device=rows.device)[:, None]
            if kind == "bias":
                made[name] = (member, rows)
                continue
            inputs = each.weight.shape[2]
            columns = _all(members, inputs, rows.device)
            if layer in sources:
                columns = _spread(chosen[sources[layer]], inputs // self._units(sources[layer]))
            made[name] = (member[:, :, None], rows[:, :, None], columns[:, None, :])
        return made

    def _units(self, layer: str) -> int:
        return self.stack.params[f"{layer}.weight"].weight.shape[1]


def _links(stack: Stack, example: Example) -> list[Link]:
    """Returns who reads whom; empty if the model cannot be captured, so nothing shrinks."""
    model = empty_network(stack.members[0].run, stack.num_classes).eval()
    try:
        follow = Follow(capture(model, example))
    except ValueError:
        return []
    return [
        Link(layer_name(units.makers[0]), tuple(map(layer_name, units.readers)), units.count)
        for units in follow.units
        if not units.norms and not units.depthwise and len(units.makers) == 1
    ]


def _read(each: Stacked, units: int) -> Bool[Tensor, "member unit"]:
    """Returns which incoming units are read; all of them if the layer has no gates."""
    if each.gate is None:
        return torch.ones(len(each.weight), units, dtype=torch.bool, device=each.weight.device)
    opened = (each.gate > 0.5).any(1)
    return opened.reshape(len(opened), units, -1).any(2)


def _filled(live: Bool[Tensor, "member unit"]) -> Int64[Tensor, "member some"]:
    """Returns each member's live units, padded with others to the same number, in order."""
    most = max(1, int(live.sum(1).max()))
    width = min(live.shape[1], -(-most // ROUND) * ROUND)
    return live.int().argsort(dim=1, descending=True, stable=True)[:, :width].sort(dim=1).values


def _all(members: int, count: int, device: torch.device) -> Int64[Tensor, "member count"]:
    return torch.arange(count, device=device).expand(members, count)


def _spread(units: Int64[Tensor, "member some"], each: int) -> Int64[Tensor, "member more"]:
    """Returns the inputs that come from these units."""
    return (units[:, :, None] * each + torch.arange(each, device=units.device)).flatten(1)


def _size(whole: Stacked, at: tuple[Tensor, ...]) -> int:
    """Returns the number of elements at these places."""
    rows, *columns = at[1:]
    return (
        rows.numel()
        * (columns[0].shape[2] if columns else 1)
        * whole.weight.shape[len(at) :].numel()
    )


def _part(whole: Stacked, at: tuple[Tensor, ...]) -> Stacked:
    """Returns copies of everything that changes, at these places."""
    held = {name: value for name in MOVED if (value := getattr(whole, name)) is not None}
    return dataclasses.replace(
        whole, **{name: value[at].contiguous() for name, value in held.items()}
    )
