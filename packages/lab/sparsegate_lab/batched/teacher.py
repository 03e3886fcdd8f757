"""A teacher's logits for every training image, shift and variant, computed once instead of at every step."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.export import Normalise
from sparsegate_lab.data import Shift, Split

from .variants import VARIANTS, variant

BATCH = 1000


class Opinion:
    """What a teacher says about shifted images: for MNIST with two pixels 25 times 55,000 times ten numbers."""

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
        """Asks the teacher, in eval, about every image, shift and variant of a split on the split's device."""
        teacher.eval()
        shift, device = Shift(pixels), split.labels.device
        span = torch.arange(-pixels, pixels + 1, device=device)
        said = []
        for begin in range(0, len(split), BATCH):
            images = split.images[begin : begin + BATCH]
            each = [
                teacher(normalise(shift.apply(images, offset.expand(len(images), 2))))
                for offset in torch.cartesian_prod(span, span).view(-1, 2)
            ]
            said.append(torch.stack(each, 1).float())
        if not vary:
            return cls(torch.cat(said), pixels)
        varied = [
            teacher(normalise(images)).float()
            for number in range(VARIANTS)
            for images in torch.split(variant(split, number, vary), BATCH)
        ]
        return cls(torch.cat(said), pixels, torch.cat(varied), vary)

    @property
    def _before_variants(self) -> int:
        """How much further on a variant's row is than its number."""
        return self.num_images * (self.num_shifts - 1)

    def __call__(
        self, chosen: Int64[Tensor, " batch"], offsets: Int64[Tensor, "batch 2"]
    ) -> Float[Tensor, "batch classes"]:
        """The logits for these images, moved by these offsets; of variants, which do not move, only the one."""
        span = 2 * self.pixels + 1
        place = (offsets[:, 0] + self.pixels) * span + offsets[:, 1] + self.pixels
        row = torch.where(
            chosen < self.num_images,
            chosen * self.num_shifts + place,
            chosen + self._before_variants,
        )
        return self.logits[row]


def soft_loss(
    logits: Float[Tensor, "batch classes"],
    wanted: Float[Tensor, "batch classes"],
    temperature: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """How far the softened logits are from the teacher's, for each image, times the temperature squared (Hinton 2015).

    >>> soft_loss(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 3.0]]), torch.tensor([2.0]))
    tensor([0.])
    """
    # The square keeps the gradients at the size that those of the labels have.
    mine = F.log_softmax(logits / temperature[:, None], 1)
    theirs = F.log_softmax(wanted / temperature[:, None], 1)
    return F.kl_div(mine, theirs, reduction="none", log_target=True).sum(1) * temperature**2
