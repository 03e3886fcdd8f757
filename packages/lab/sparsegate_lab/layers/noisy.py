"""A layer with Gaussian noise on its weights, drawn in its output, where that is cheapest."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from .wrap import Layer, apply_layer

CLIP = 8.0  # of the logarithm of alpha, where a weight is long gone
SETTLED = 40.0  # of a log variance: practically infinite, and its negative practically zero


class Noisy(nn.Module):
    """A Linear or Conv with a variance for every weight, which is itself the mean.

    `alpha`, variance over squared mean, measures the noise of a weight. A weight whose log alpha is
    above the threshold is zero, in training too. In eval mode the layer uses the means.
    """

    def __init__(self, layer: Layer, *, log_variance: float, threshold: float) -> None:
        super().__init__()
        self.layer = layer
        self.log_variance = nn.Parameter(torch.full_like(layer.weight, log_variance))
        self.threshold = threshold

    def log_alpha(self) -> Float[Tensor, "..."]:
        """The logarithm of variance over squared mean, for each weight."""
        return log_alpha(self.layer.weight, self.log_variance)

    @torch.no_grad()
    def alive(self) -> Bool[Tensor, "..."]:
        """Which weights have less noise than the threshold."""
        return self.log_alpha() < self.threshold

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output with a draw of its weights; in eval, with their means."""
        alive = self.alive()
        weight = torch.where(alive, self.layer.weight, 0.0)
        mean = apply_layer(self.layer, features, weight, self.layer.bias)
        if not self.training:
            return mean
        # A sum of Gaussians is Gaussian: draw once per output, not once per weight.
        noise = torch.where(alive, self.log_variance.exp(), 0.0)
        variance = apply_layer(self.layer, features**2, noise, None)
        return mean + torch.sqrt(variance.clamp_min(0.0) + 1e-8) * torch.randn_like(mean)

    @torch.no_grad()
    def settle_(self) -> None:
        """Removes the noise of live weights, and makes the others so noisy that none comes back."""
        self.log_variance.copy_(torch.where(self.alive(), -SETTLED, SETTLED))

    @torch.no_grad()
    def without_noise(self) -> Layer:
        """The layer alone, the weights with too much noise exactly zero."""
        self.layer.weight.masked_fill_(~self.alive(), 0.0)
        return self.layer


def log_alpha(
    mean: Float[Tensor, "*shape"], log_variance: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """The logarithm of variance over squared mean."""
    # Not clipped below as in the authors' code, where a large weight would never get a gradient.
    return (log_variance - torch.log(mean**2 + 1e-16)).clamp_max(CLIP)


def divergence(layers: Sequence[Noisy]) -> Float[Tensor, ""]:
    """The KL divergence of these layers from the log-uniform prior, in nats, up to a constant."""
    # All layers in one vector, because small operations are slow to start on a GPU.
    means = torch.cat([each.layer.weight.flatten() for each in layers])
    alphas = log_alpha(means, torch.cat([each.log_variance.flatten() for each in layers]))
    # Molchanov et al. 2017, equation 14.
    each = 0.63576 * (1 - torch.sigmoid(1.8732 + 1.48695 * alphas)) + 0.5 * F.softplus(-alphas)
    return each.sum()
