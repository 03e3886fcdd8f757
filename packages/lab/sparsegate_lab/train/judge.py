"""Answers what a method asks about its model between two epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelerate import Accelerator
from torch import Tensor, nn

from sparsegate_lab.data import Split
from sparsegate_lab.method import Judge

from .evaluate import accuracy


@dataclass(frozen=True, eq=False)
class SplitJudge(Judge):
    """Judges a model by the validation split and shows images of the training split, never of the test."""

    model: nn.Module
    train: Split
    validation: Split
    normalise: Callable[[Tensor], Tensor]
    accelerator: Accelerator

    def accuracy(self) -> float:
        """Validation accuracy of the model as it is now; every process takes its part of the images."""
        return accuracy(self.model, self.validation, self.normalise, self.accelerator)

    def images(self, count: int) -> Tensor:
        """The first training images, where they are in the file."""
        return self.normalise(self.train.part(0, count).to(self.accelerator.device).images)
