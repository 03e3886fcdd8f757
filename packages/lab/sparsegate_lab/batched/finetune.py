"""What is done otherwise in the last part of training, when the mask stands still."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .variants import AS_THEY_ARE, VARIANTS


@dataclass(frozen=True)
class Late:
    """How the weights that are left are trained; what is not said here goes on as before.

    >>> Late(lr=0.02).about()
    ('from there on the learning rate began again at 0.02',)
    """

    lr: float | None = None
    """The learning rate begins here again when the gates freeze, and a cosine takes it to zero."""

    weight_decay: float | None = None
    """Weight decay from there on."""

    adapt: bool = False
    """Whether steps are divided by the size that gradients have had, as Adam does; its learning rates are smaller."""

    warmup: float = 0.0
    """Fraction of that time in which the learning rate rises from zero: Adam's first steps know no size yet."""

    vary: float = 0.0
    """How much images are turned, stretched, slanted and bent in the place of shifts, such as 1; 0 for shifts."""

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1 or (self.warmup and self.lr is None):
            raise ValueError(
                f"warmup is a fraction in [0, 1) of the time with an lr of its own, got {self.warmup}"
            )
        if (self.lr is not None and self.lr <= 0) or (
            self.weight_decay is not None and self.weight_decay < 0
        ):
            raise ValueError(
                f"lr is above zero and weight_decay not below it, got {self.lr} and {self.weight_decay}; "
                "None goes on as before"
            )
        if not 0 <= self.vary < math.inf:
            raise ValueError(
                f"vary is a strength, such as 1, or 0 for shifts as before, got {self.vary}"
            )
        if self.adapt and self.lr is None:
            raise ValueError(
                "steps like Adam's need a learning rate of their own: Late(lr=0.002, adapt=True)"
            )

    def about(self) -> tuple[str, ...]:
        """What a reader of the record should know."""
        said = []
        if self.lr is not None:
            said.append(
                f"from there on the learning rate began again at {self.lr}{', as Adam' if self.adapt else ''}"
            )
        if self.warmup:
            said.append(f"it rose from zero in the first {self.warmup:g} of that time")
        if self.weight_decay is not None:
            said.append(f"from there on the weight decay was {self.weight_decay}")
        if self.vary:
            said.append(
                f"from there on {1 - AS_THEY_ARE:.0%} of the images were one of {VARIANTS} variants of theirs, turned, "
                f"stretched, slanted and bent, strength {self.vary:g}, and none moved by whole pixels"
            )
        return tuple(said)
