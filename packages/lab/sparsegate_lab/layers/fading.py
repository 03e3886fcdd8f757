"""Dropout of a network with a rate that falls as weights are removed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .dropout import dropped_out
from .replace import replace_


class FadingDropout(nn.Module):
    """Replaces an nn.Dropout in training: fewer weights need less dropout (Han et al., 2015).

    >>> dropout = FadingDropout(0.5)
    >>> dropout.fade_(0.04)
    >>> dropout
    FadingDropout(0.5, now 0.1)
    """

    rates: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        # The first and the current rate. A buffer is part of checkpoints, and a compiled network is
        # not compiled again when it changes.
        self.register_buffer("rates", torch.tensor([rate, rate]))

    def forward(self, features: Tensor) -> Tensor:
        """Drops features in training."""
        return dropped_out(features, self.rates[1]) if self.training else features

    def fade_(self, left: float | Tensor) -> None:
        """Sets the rate to the first rate times the root of the fraction of weights left."""
        self.rates[1] = self.rates[0] * left**0.5

    def extra_repr(self) -> str:
        """Both rates."""
        return f"{float(self.rates[0]):g}, now {float(self.rates[1]):g}"


def fade_dropout_(model: nn.Module) -> None:
    """Replaces every nn.Dropout with a FadingDropout."""
    found = [module for module in model.modules() if type(module) is nn.Dropout and module.p > 0]
    if not found:
        raise ValueError("fade lowers dropout, and the model has no nn.Dropout; leave fade out")
    for module in found:
        replace_(model, module, FadingDropout(module.p).train(module.training))


def set_left_(model: nn.Module, left: float | Tensor) -> None:
    """Sets the rate of every FadingDropout for this fraction of weights left."""
    for module in fading(model):
        module.fade_(left)


def restore_dropout_(model: nn.Module) -> None:
    """Replaces every FadingDropout with an nn.Dropout of the first rate."""
    for module in fading(model):
        replace_(model, module, nn.Dropout(float(module.rates[0])).train(module.training))


def fading(model: nn.Module) -> list[FadingDropout]:
    """Every FadingDropout of a model."""
    return [module for module in model.modules() if isinstance(module, FadingDropout)]
