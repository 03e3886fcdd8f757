"""The contract between the training loop and every method that makes a network smaller."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sparsegate.schedule import cosine


class Judge(abc.ABC):
    """Answers a method's questions between two epochs, with the same answers on every process."""

    @abc.abstractmethod
    def accuracy(self) -> float:
        """Validation accuracy of the current model, in percent."""

    @abc.abstractmethod
    def images(self, count: int) -> Tensor:
        """The first `count` training images, normalized; all of them if there are fewer."""


@dataclass(frozen=True)
class Training:
    """What a method knows about a run when it creates the optimizers."""

    lr: float
    """The run's learning rate, before warmup and schedule."""
    momentum: float
    weight_decay: float
    steps: int
    """Number of steps in the complete training."""
    judge: Judge

    def sgd(self, parameters: Iterable[nn.Parameter]) -> SGD:
        """SGD with the run's settings."""
        return SGD(
            list(parameters), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )


class Method(abc.ABC):
    """A way to make a network smaller, as seven moments of training.

    The loop calls `prepare` and `optimizers` once; then, for every step, `before_step`, `loss_term`
    and `after_step`; `after_epoch` after every epoch; and `finish` at the end. `progress` runs from
    0 before the first step to 1 after the last.

    A method is a frozen dataclass of plain settings, which become flags of the command line. It
    keeps everything that it has to remember in parameters and buffers of the model, or in the state
    of its optimizers: a checkpoint of these is complete.
    """

    shards: ClassVar[bool] = False
    """Whether the method can train a model whose weights are split over processes (FSDP2)."""

    @property
    def freezes_at(self) -> float | None:
        """Progress from which the mask no longer changes; None if it may change until the end."""
        return None

    @abc.abstractmethod
    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Changes a fresh or pretrained model for training; may work in place.

        Args:
            model: the model.
            progress: where training starts. Above 0 the run is resumed: the model must get the
                layers that it has at that progress. The checkpoint is loaded afterwards, so their
                shapes must not depend on the weights.
        """

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """Creates the optimizers, for the prepared model or after its layers were replaced.

        The first one trains the weights: before every step the loop sets its learning rate to the
        run's, and it clips the gradients of its parameters.
        """
        return [training.sgd(model.parameters())]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Sets what follows a schedule; called before every forward pass.

        The default lets the learning rate of the weights follow a cosine to zero.
        """
        scale_lr_(optimizers[0], cosine(progress))

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """A scalar that is added to the loss, if any."""
        return None

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Applies masks and projections; called after every step of the optimizers."""

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Does work that is too expensive for every step; called before the epoch is measured.

        May replace layers of the model, in place: the loop then creates new optimizers.
        """

    @abc.abstractmethod
    def finish(self, model: nn.Module) -> nn.Module:
        """Turns the trained model into an ordinary one; may work in place."""


def scale_lr_(optimizer: Optimizer, factor: float) -> None:
    """Multiplies an optimizer's learning rates, in place."""
    for group in optimizer.param_groups:
        group["lr"] *= factor


def check_keep(keep: float) -> None:
    """Raises if this is not a fraction of weights that can be left."""
    if not 0 < keep <= 1:
        raise ValueError(
            f"keep is a fraction in (0, 1], got {keep}; for 95 % sparsity write keep=0.05"
        )
