"""What is done otherwise in the last part of training, when the mask stands still."""

from __future__ import annotations

from dataclasses import dataclass


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

    def __post_init__(self) -> None:
        if (self.lr is not None and self.lr <= 0) or (self.weight_decay is not None and self.weight_decay < 0):
            raise ValueError(
                f"lr is above zero and weight_decay not below it, got {self.lr} and {self.weight_decay}; "
                "None goes on as before"
            )
        if self.adapt and self.lr is None:
            raise ValueError("steps like Adam's need a learning rate of their own: Late(lr=0.002, adapt=True)")

    def about(self) -> tuple[str, ...]:
        """What a reader of the record should know."""
        said = []
        if self.lr is not None:
            said.append(f"from there on the learning rate began again at {self.lr}{', as Adam' if self.adapt else ''}")
        if self.weight_decay is not None:
            said.append(f"from there on the weight decay was {self.weight_decay}")
        return tuple(said)
