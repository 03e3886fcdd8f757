"""CONTRACT Method: what a training loop knows of any way to make a network smaller."""

from __future__ import annotations

import abc
from typing import ClassVar

from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sparsegate.schedule import cosine


class Judge(abc.ABC):
    """What a method may ask between two epochs; the answers are the same on every process."""

    @abc.abstractmethod
    def accuracy(self) -> float:
        """Percentage of the validation images that the model, as it is now, labels rightly."""

    @abc.abstractmethod
    def images(self, count: int) -> Tensor:
        """The first so many training images, normalised; all of them if there are fewer."""


class Method(abc.ABC):
    """A way to make a network smaller, as a few moments in training.

    A method is a frozen dataclass of plain settings, which are its flags on the command line. What it must
    remember during training lives in the model, as parameters or buffers, or in its optimiser's state: a checkpoint of
    the two is whole. `progress` runs from 0 before the first step to 1 after the last.
    """

    shards: ClassVar[bool] = False
    """Whether it works on parts of weights, as processes hold them that share a model out."""

    @abc.abstractmethod
    def prepare(self, model: nn.Module) -> nn.Module:
        """Changes a fresh or pretrained model for training; may work in place."""

    @abc.abstractmethod
    def finish(self, model: nn.Module) -> nn.Module:
        """Turns the trained model into an ordinary one; may work in place."""

    def rebuild_at(self) -> float | None:
        """Progress from which on the model is the rebuilt one, 1 for after training; never unless overridden."""
        return None

    def rebuild(self, model: nn.Module) -> nn.Module:
        """Puts other layers into a model in the course of training; may work in place.

        Called once, at the end of an epoch, before new optimisers are made; on resuming, too, before the checkpoint
        is loaded. So the new shapes follow from the settings and the old shapes, never from the weights.
        """
        return model

    def weights(self, model: nn.Module) -> list[nn.Parameter]:
        """The parameters that the loop's own optimiser trains: all of them, unless the method moves some itself."""
        return list(model.parameters())

    def sgd(
        self, model: nn.Module, *, lr: float, momentum: float, weight_decay: float
    ) -> Optimizer:
        """The loop's own optimiser: SGD on `weights`, unless the method has one that moves its parameters, too."""
        return SGD(self.weights(model), lr=lr, momentum=momentum, weight_decay=weight_decay)

    def optimizer(self, model: nn.Module) -> Optimizer | None:
        """An optimiser of the method's own, stepped and saved by the loop; none unless overridden."""
        return None

    def set_out(
        self, model: nn.Module, optimizer: Optimizer | None, judge: Judge, steps: int
    ) -> None:
        """Called when the optimisers are made, before a checkpoint is loaded: training has so many steps in all."""

    def settles_at(self) -> float | None:
        """Progress from which on no weight is removed or comes back; none unless overridden."""
        return None

    def remarks(self, optimizer: Optimizer | None) -> tuple[str, ...]:
        """What the record should say of the training that has ended; nothing unless overridden."""
        return ()

    def lr_factor(self, progress: float) -> float:
        """The factor on the weights' learning rate at this moment: a cosine from one to zero, unless overridden."""
        return cosine(progress)

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Called before the forward pass of every step: the place for schedules.

        The optimiser is the method's own, or the loop's if it has none; the weights' learning rate is set already.
        """

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """A scalar to add to the loss; none unless overridden."""
        return None

    def after_backward(self, model: nn.Module, progress: float) -> None:
        """Called when the gradients are there and the optimisers have not moved yet; gradients may be changed."""

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Called after the optimisers of every step: the place for cuts and projections."""

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Called after every epoch, before it is measured and saved: the place for what costs more than a step."""
