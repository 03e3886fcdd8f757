"""CONTRACT Thresholding: methods that use only weights above a threshold, which rises."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

from torch import nn

from sparsegate.schedule import Gradual
from sparsegate_lab.layers import Layer, Thresholded, layers_of, set_thresholds_, unwrap_, wrap_
from sparsegate_lab.method import Method, check_keep


@dataclass(frozen=True)
class Thresholding(Method):
    """A method that never removes a weight for good: the threshold alone decides, at every step.

    A subclass says in `wrapped` what the forward pass uses of a layer's weight, and with it which
    gradients weights below the threshold get.
    """

    keep: float = 0.05
    """Fraction of weights that is used at the end, over all layers together."""

    gradual: Gradual = field(default_factory=Gradual)
    """When the threshold rises."""

    def __post_init__(self) -> None:
        check_keep(self.keep)

    @abc.abstractmethod
    def wrapped(self, layer: Layer) -> Thresholded:
        """The layer with a threshold."""

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Gives every Linear and Conv layer a threshold."""
        return wrap_(model, {name: self.wrapped(layer) for name, layer in layers_of(model).items()})

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Moves the threshold, so that the scheduled fraction of weights exceeds it."""
        set_thresholds_(model, self.gradual.keep(progress, of=self.keep))

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model in which weights below the threshold are zero."""
        return unwrap_(model, Thresholded, lambda each: each.settled())  # type: ignore[operator]
