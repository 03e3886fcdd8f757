"""The training batches of an epoch, as a function of the run's seed and the epoch's number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sparsegate.data import Normalise, Shift, Split

from .seed import generator


@dataclass(frozen=True)
class Batches:
    """Shuffled, shifted and normalised batches; every process takes its part of each."""

    split: Split
    normalise: Normalise
    shift: Shift
    batch_size: int
    """Images in a batch, over all processes together; what is left over at an epoch's end is dropped."""
    seed: int
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if self.batch_size > len(self.split):
            raise ValueError(f"batch_size is {self.batch_size}, but there are only {len(self.split)} training images")
        if self.batch_size % self.world:
            raise ValueError(f"batch_size {self.batch_size} does not divide among {self.world} processes")

    def __len__(self) -> int:
        return len(self.split) // self.batch_size

    def epoch(self, number: int) -> EpochBatches:
        """The batches of one epoch."""
        draw = generator(self.seed, "epoch", number)
        order = torch.randperm(len(self.split), generator=draw)
        offsets = self.shift.draw(len(self.split), draw)
        device = self.split.labels.device
        return EpochBatches(self, order.to(device), offsets.to(device))


@dataclass(frozen=True)
class EpochBatches:
    """One epoch's batches, by number."""

    batches: Batches
    order: Int64[Tensor, " image"]
    offsets: Int64[Tensor, "image 2"]

    def __getitem__(self, number: int) -> tuple[Float[Tensor, "part channel height width"], Int64[Tensor, " part"]]:
        of, size = self.batches, self.batches.batch_size // self.batches.world
        begin = number * of.batch_size + of.rank * size
        chosen = self.order[begin : begin + size]
        moved = of.shift.apply(of.split.images[chosen], self.offsets[begin : begin + size])
        return of.normalise(moved), of.split.labels[chosen]
