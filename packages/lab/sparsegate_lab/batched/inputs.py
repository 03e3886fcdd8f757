"""Gathers the training batches of all members on the device, from one copy of the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional as F

from sparsegate.export import Normalise
from sparsegate_lab.data import Shift, Split
from sparsegate_lab.train import Batches

from .member import Member, strength
from .variants import VARIANTS, drawn_variants, variant


class Batch(NamedTuple):
    """One batch for every member, in the order of members."""

    images: Float[Tensor, "batch channel height width"]
    labels: Int64[Tensor, " batch"]
    chosen: Int64[Tensor, " batch"]
    """The indices of the images in the split; indices of variants follow."""
    offsets: Int64[Tensor, "batch 2"]
    """The images' shifts down and to the right."""


class ManyInputs:
    """The batches of every member, drawn on the CPU and gathered on the device."""

    def __init__(
        self, members: Sequence[Member], split: Split, normalise: Normalise, device: torch.device
    ) -> None:
        runs = [member.run for member in members]
        # On the CPU, where drawing gives the same numbers on every machine.
        self.drawers = [
            Batches(split, normalise, (Shift(run.shift),), run.batch_size, run.seed) for run in runs
        ]
        self.members, self.count = tuple(members), len(split)
        self.size, self.steps, self.normalise = runs[0].batch_size, len(self.drawers[0]), normalise
        self.margin = max(run.shift for run in runs)
        self.labels = split.labels.to(device)
        self.shape = split.images.shape[1:]
        padded = F.pad(_all_images(split.to(device), strength(members)), (self.margin,) * 4)
        self.stride = padded.shape[3]
        self.area = padded.shape[2] * padded.shape[3]
        self.pixels = padded.flatten()
        used = self.steps * self.size
        self.order = torch.zeros(len(runs), used, dtype=torch.int32, device=device)
        self.offsets = torch.zeros(len(runs), used, 2, dtype=torch.int8, device=device)
        self.grid = self._grid(device)

    def drawn(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Returns the order and the shifts of an epoch, on the CPU."""
        used = self.steps * self.size
        epochs = [each.epoch(epoch) for each in self.drawers]
        order = torch.stack([each.order[:used].to("cpu", torch.int32) for each in epochs])
        offsets = torch.stack([each.drawn[0][:used].to("cpu", torch.int8) for each in epochs])
        for index, member in enumerate(self.members):
            if member.late.vary and epoch >= member.frozen_at:
                order[index] += self.count * drawn_variants(member.run.seed, epoch, used).int()
                offsets[index] = 0
        return order, offsets

    def load(self, drawn: tuple[Tensor, Tensor]) -> None:
        """Sets the epoch from which batches come."""
        self.order.copy_(drawn[0])
        self.offsets.copy_(drawn[1])

    def batch(self, at: Int64[Tensor, "1"]) -> Batch:
        """Returns the batch whose index is on the device."""
        positions = at * self.size + torch.arange(self.size, device=at.device)
        chosen = self.order.index_select(1, positions).flatten().long()
        offsets = self.offsets.index_select(1, positions).flatten(0, 1).long()
        first = chosen * (self.shape[0] * self.area)
        corner = first + (self.margin - offsets[:, 0]) * self.stride + (self.margin - offsets[:, 1])
        moved = self.pixels[corner[:, None, None, None] + self.grid].permute(0, 3, 1, 2)
        return Batch(self.normalise(moved), self.labels[chosen % self.count], chosen, offsets)

    def _grid(self, device: torch.device) -> Tensor:
        """Returns the offsets of an image's pixels from its corner: height, width, channel."""
        channels, height, width = (torch.arange(size, device=device) for size in self.shape)
        return height[:, None, None] * self.stride + width[:, None] + channels * self.area


def _all_images(split: Split, vary: float) -> UInt8[Tensor, "image channel height width"]:
    """Returns the images of a split and, with a strength, all their variants."""
    if not vary:
        return split.images
    return torch.cat([split.images, *(variant(split, number, vary) for number in range(VARIANTS))])
