"""Training batches as a function of the run's seed and the number of the epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from sparsegate_lab.data import Augment, Split, can_change_fast, changed_in_one_pass, changes_of

from .seed import generator

AHEAD = 3  # batches that are fetched in advance if the images are not on the device
PIECE = 16_384  # bytes that are copied at once
Batch = tuple[Float[Tensor, "part *image"], Int64[Tensor, " part"]]


@dataclass(frozen=True)
class Batches:
    """Shuffled, augmented and normalized batches; every process takes a part of each."""

    split: Split
    """The images; if they are not on the device, a thread fetches batches in advance."""
    normalise: Callable[[Tensor], Tensor]
    augments: tuple[Augment, ...]
    batch_size: int
    """Images per batch, over all processes; the incomplete batch at an epoch's end is dropped."""
    seed: int
    rank: int = 0
    world: int = 1
    fetch_to: torch.device | None = None
    """The device that batches are fetched to; None if the images are there already."""
    compiled: bool = False
    """Whether torch.compile fuses the augmentations where no kernel does."""

    def __post_init__(self) -> None:
        if self.batch_size > len(self.split):
            raise ValueError(
                f"batch_size is {self.batch_size}, but there are only {len(self.split)} training "
                "images"
            )
        if self.batch_size % self.world:
            raise ValueError(
                f"batch_size {self.batch_size} does not divide among {self.world} processes"
            )

    def __len__(self) -> int:
        return len(self.split) // self.batch_size

    @property
    def device(self) -> torch.device:
        """The device of the batches."""
        return self.fetch_to or self.split.labels.device

    def epoch(self, number: int) -> EpochBatches:
        """The batches of one epoch."""
        draw = generator(self.seed, "epoch", number)
        order = torch.randperm(len(self.split), generator=draw)
        drawn = [augment.draw(len(self.split), draw) for augment in self.augments]
        return EpochBatches(
            self, order.to(self.split.labels.device), tuple(each.to(self.device) for each in drawn)
        )


@dataclass(frozen=True)
class EpochBatches:
    """The batches of one epoch, by index or in order."""

    batches: Batches
    order: Int64[Tensor, " image"]
    drawn: tuple[Num[Tensor, "image _"], ...]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Batch:
        return self._changed(number, self._fetched(number))

    def __iter__(self) -> Iterator[Batch]:
        if self.batches.fetch_to is None:
            yield from (self[number] for number in range(len(self)))
            return
        with ThreadPoolExecutor(1) as thread:
            coming = deque(
                thread.submit(self._fetched, number) for number in range(min(AHEAD, len(self)))
            )
            for number in range(len(self)):
                fetched = coming.popleft().result()
                if number + AHEAD < len(self):
                    coming.append(thread.submit(self._fetched, number + AHEAD))
                yield self._changed(number, fetched)

    def _part(self, number: int) -> slice:
        of, size = self.batches, self.batches.batch_size // self.batches.world
        begin = number * of.batch_size + of.rank * size
        return slice(begin, begin + size)

    def _fetched(self, number: int) -> Split:
        """The bytes of a batch, on its device."""
        split, chosen = self.batches.split, self.order[self._part(number)]
        if self.batches.fetch_to is None:
            return Split(split.images[chosen], split.labels[chosen])
        # Through pinned memory, which the GPU can read while the CPU goes on.
        pinned = torch.cuda.is_available()
        waiting = torch.empty(
            (len(chosen), *split.images.shape[1:]), dtype=split.images.dtype, pin_memory=pinned
        )
        gather_(waiting, split.images, chosen)
        labels = split.labels[chosen].pin_memory() if pinned else split.labels[chosen]
        device = self.batches.device
        return Split(waiting.to(device, non_blocking=True), labels.to(device, non_blocking=True))

    def _changed(self, number: int, fetched: Split) -> Batch:
        of, part = self.batches, self._part(number)
        drawn = tuple(each[part] for each in self.drawn)
        changes = changes_of(of.augments, of.normalise)
        if changes is not None and can_change_fast(fetched.images):
            return changed_in_one_pass(fetched.images, drawn, changes), fetched.labels
        change = _compiled() if of.compiled else changed
        return change(fetched.images, drawn, of.augments, of.normalise), fetched.labels


def gather_(
    out: Num[Tensor, "part *image"],
    images: Num[Tensor, "all *image"],
    chosen: Int64[Tensor, " part"],
) -> None:
    """Copies the chosen images to `out`, in pieces, because torch copies long rows one by one."""
    if not images.is_contiguous():
        torch.index_select(images, 0, chosen, out=out)
        return
    size = images[0].numel()
    count = next(count for count in range(-(-size // PIECE), size + 1) if size % count == 0)
    pieces = (chosen[:, None] * count + torch.arange(count)).flatten()
    torch.index_select(images.view(-1, size // count), 0, pieces, out=out.view(-1, size // count))


def changed(
    images: Num[Tensor, "part *image"],
    drawn: tuple[Num[Tensor, "part _"], ...],
    augments: tuple[Augment, ...],
    normalise: Callable[[Tensor], Tensor],
) -> Float[Tensor, "part *given"]:
    """The images as the network gets them in training."""
    for augment, numbers in zip(augments, drawn, strict=True):
        images = augment.apply(images, numbers)
    return normalise(images)


@cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(changed, dynamic=False)
