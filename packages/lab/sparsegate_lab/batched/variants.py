"""Creates distorted variants of the training images once, so that a teacher can see them all."""

from __future__ import annotations

import torch
from jaxtyping import UInt8
from torch import Tensor

from sparsegate_lab.data import Elastic, Split
from sparsegate_lab.train import generator

VARIANTS = 24  # of every image
AS_THEY_ARE = 0.2  # share of images that are not distorted in an epoch
PIECE = 5_000  # images that are changed at a time


def variant(
    split: Split, number: int, strength: float
) -> UInt8[Tensor, "image channel height width"]:
    """Returns one variant of all images of a split, on the split's device; deterministic."""
    vary = Elastic(strength)
    drawn = vary.draw(len(split), generator(number, "variant")).to(split.labels.device)
    pieces = zip(torch.split(split.images, PIECE), torch.split(drawn, PIECE), strict=True)
    return torch.cat([vary.apply(*each).round_().to(torch.uint8) for each in pieces])


def drawn_variants(seed: int, epoch: int, count: int) -> Tensor:
    """Returns the variant of each of `count` images in an epoch, from 1; 0 is the image itself."""
    draw = generator(seed, "variant", epoch)
    which = torch.randint(1, VARIANTS + 1, (count,), generator=draw)
    return which * (torch.rand(count, generator=draw) >= AS_THEY_ARE)
