"""Computes a teacher's logits for all training images, shifts and variants once."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from sparsegate.export import Normalise
from sparsegate_lab.data import Shift, Split

from .variants import VARIANTS, variant

BATCH = 1000


class Opinion:
    """A teacher's logits for shifted images: for MNIST and two pixels, 25 x 55,000 x 10 numbers."""

    def __init__(
        self,
        logits: Float[Tensor, "image shift classes"],
        pixels: int,
        varied: Float[Tensor, "variant classes"] | None = None,
        vary: float = 0.0,
    ) -> None:
        self.pixels, self.vary = pixels, vary
        self.num_images, self.num_shifts = logits.shape[:2]
        whole = logits.flatten(0, 1)
        self.logits = whole if varied is None else torch.cat([whole, varied])

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        teacher: nn.Module,
        split: Split,
        normalise: Normalise,
        pixels: int,
        *,
        vary: float = 0.0,
    ) -> Opinion:
        """Runs the teacher in eval mode on all images, shifts and variants of a split."""
        teacher.eval()
        shift, device = Shift(pixels), split.labels.device
        span = torch.arange(-pixels, pixels + 1, device=device)
        logits = []
        for begin in range(0, len(split), BATCH):
            images = split.images[begin : begin + BATCH]
            shifted = [
                teacher(normalise(shift.apply(images, offset.expand(len(images), 2))))
                for offset in torch.cartesian_prod(span, span).view(-1, 2)
            ]
            logits.append(torch.stack(shifted, 1).float())
        if not vary:
            return cls(torch.cat(logits), pixels)
        varied = [
            teacher(normalise(images)).float()
            for number in range(VARIANTS)
            for images in torch.split(variant(split, number, vary), BATCH)
        ]
        return cls(torch.cat(logits), pixels, torch.cat(varied), vary)

    @property
    def _before_variants(self) -> int:
        """Returns the offset of a variant's row from its index."""
        return self.num_images * (self.num_shifts - 1)

    def __call__(
        self, chosen: Int64[Tensor, " batch"], offsets: Int64[Tensor, "batch 2"]
    ) -> Float[Tensor, "batch classes"]:
        """Returns the logits for these images at these shifts; variants are not shifted."""
        span = 2 * self.pixels + 1
        shift = (offsets[:, 0] + self.pixels) * span + offsets[:, 1] + self.pixels
        row = torch.where(
            chosen < self.num_images,
            chosen * self.num_shifts + shift,
            chosen + self._before_variants,
        )
        return self.logits[row]
