"""First weights of deep networks, as torchvision draws them."""

from __future__ import annotations

from torch import nn


def begin_(model: nn.Module) -> None:
    """Draws the first weights of a deep network, in place: without norms it learns nothing from torch's own."""
    layers = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    for layer in (
        layers if not layers[0].weight.is_meta else ()
    ):  # torch takes seconds to draw nothing
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        else:
            nn.init.normal_(layer.weight, 0.0, 0.01)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
