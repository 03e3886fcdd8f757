"""A network's own dropout, with a rate that falls with the connections that are left."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .dropout import dropped_out
from .replace import replace_


class FadingDropout(nn.Module):
    """Stands for an nn.Dropout while weights leave: fewer connections learn less by heart (Han et al., 2015).

    >>> dropout = FadingDropout(0.5)
    >>> dropout.fade_(0.04)
    >>> dropout
    FadingDropout(0.5, now 0.1)
    """

    rates: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        # In the model, so that a checkpoint holds it and a compiled network need not be compiled again.
        self.register_buffer(
            "rates", torch.tensor([rate, rate])
        )  # the first rate and that of this moment

    def forward(self, features: Tensor) -> Tensor:
        """Drops features in training."""
        return dropped_out(features, self.rates[1]) if self.training else features

    def fade_(self, left: float | Tensor) -> None:
        """Sets the rate to the first one times the root of the fraction of connections that is left."""
        self.rates[1] = self.rates[0] * left**0.5

    def extra_repr(self) -> str:
        """Both rates."""
        return f"{float(self.rates[0]):g}, now {float(self.rates[1]):g}"


def fade_dropout_(model: nn.Module) -> None:
    """Puts a FadingDropout in the place of every nn.Dropout."""
    found = [module for module in model.modules() if type(module) is nn.Dropout and module.p > 0]
    if not found:
        raise ValueError(
            "there is no dropout that could fade: the model has no nn.Dropout; leave fade out"
        )
    for module in found:
        replace_(model, module, FadingDropout(module.p).train(module.training))


def set_left_(model: nn.Module, left: float | Tensor) -> None:
    """Says to every FadingDropout which fraction of connections is left."""
    for module in fading(model):
        module.fade_(left)


def restore_dropout_(model: nn.Module) -> None:
    """Puts an nn.Dropout with the first rate in the place of every FadingDropout."""
    for module in fading(model):
        replace_(model, module, nn.Dropout(float(module.rates[0])).train(module.training))


def fading(model: nn.Module) -> list[FadingDropout]:
    """Every FadingDropout of a model."""
    return [module for module in model.modules() if isinstance(module, FadingDropout)]
