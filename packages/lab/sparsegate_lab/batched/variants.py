"""Variants of the training images, made once: a teacher can be asked about all of them beforehand."""

from __future__ import annotations

import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate_lab.data import Split, Vary
from sparsegate_lab.train import generator

VARIANTS = 24  # of every image
AS_THEY_ARE = 0.2  # share of the images that are not varied in an epoch
PIECE = 5_000  # images that are changed at a time


def variant(
    split: Split, number: int, strength: float
) -> UInt8[Tensor, "image channel height width"]:
    """The images of a split, each in its variant of a number, on the split's device; the same every time."""
    vary = Vary(strength)
    drawn = vary.draw(len(split), generator(number, "variant")).to(split.labels.device)
    pieces = zip(torch.split(split.images, PIECE), torch.split(drawn, PIECE), strict=True)
    return torch.cat([vary.apply(*each).round_().to(torch.uint8) for each in pieces])


def drawn_variants(seed: int, epoch: int, count: int) -> Tensor:
    """Which variant each of `count` images is in an epoch, from 1 on; 0 for those that stay as they are."""
    draw = generator(seed, "variant", epoch)
    which = torch.randint(1, VARIANTS + 1, (count,), generator=draw)
    return which * (torch.rand(count, generator=draw) >= AS_THEY_ARE)
