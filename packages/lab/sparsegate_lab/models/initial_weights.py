"""Initializes deep networks as torchvision does."""

from __future__ import annotations

from torch import nn


def begin_(model: nn.Module) -> None:
    """Initializes weights in place; torch's defaults are too small without normalization."""
    layers = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    if layers[0].weight.is_meta:  # torch takes seconds to initialize meta tensors
        return
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        else:
            nn.init.normal_(layer.weight, 0.0, 0.01)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
