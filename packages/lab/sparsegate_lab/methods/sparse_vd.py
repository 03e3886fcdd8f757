"""Molchanov, Ashukha and Vetrov, Variational Dropout Sparsifies Deep Networks, 2017."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.schedule import cosine
from sparsegate_lab.layers import Layer, apply_layer, layers_of, unwrap_, wrap_
from sparsegate_lab.method import Method, Training, scale_lr_


@dataclass(frozen=True)
class SparseVD(Method):
    """Learns how much noise each weight tolerates; a weight that tolerates any noise is removed."""

    # Differs from Molchanov et al. 2017: 1. biases are trained by the run's SGD, not by Adam. 2.
    # the variances may have another learning rate, for trainings shorter than their 200 epochs.
    # 3. with `freeze` below one, training ends without noise.

    price: float = 1.0
    """Factor on the divergence from the prior; 1 is the variational lower bound."""

    num_images: int = 55_000
    """Number of training images, by which the divergence is divided."""

    wait: float = 0.05
    """Fraction of training without the divergence."""

    ramp: float = 0.25
    """Fraction of training before the divergence has its full weight."""

    mean_lr: float = 1e-3
    """Initial learning rate of the weights (Adam); it falls linearly to zero."""

    variance_lr: float = 3e-3
    """Initial learning rate of the log variances (Adam); it falls linearly to zero."""

    log_variance: float = -10.0
    """Initial value of all log variances."""

    threshold: float = 3.0
    """A weight is removed where log(variance / mean^2) is at least this."""

    freeze: float = 1.0
    """Fraction of training before the noise is switched off and the mask is frozen; 1: never."""

    def __post_init__(self) -> None:
        if not (self.price >= 0 and self.num_images >= 1):
            raise ValueError(
                f"expected price >= 0 and num_images >= 1, got {self.price} and {self.num_images}"
            )
        if not 0 <= self.wait <= self.ramp <= 1:
            raise ValueError(
                f"expected 0 <= wait <= ramp <= 1, got wait={self.wait}, ramp={self.ramp}"
            )
        if not 0 < self.freeze <= 1:
            raise ValueError(f"freeze is in (0, 1], got {self.freeze}")
        if not (self.mean_lr > 0 and self.variance_lr > 0):
            raise ValueError(
                f"learning rates are above zero, got {self.mean_lr} and {self.variance_lr}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds noise to every Linear and Conv layer."""
        return wrap_(
            model,
            {
                name: Noisy(layer, log_variance=self.log_variance, threshold=self.threshold)
                for name, layer in layers_of(model).items()
            },
        )

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """Adam on the noisy weights and their variances; the run's SGD on everything else."""
        means = [each.layer.weight for each in _noisy(model)]
        variances = [each.log_variance for each in _noisy(model)]
        noisy = {id(each) for each in (*means, *variances)}
        adam = torch.optim.Adam(
            [{"params": means, "lr": self.mean_lr}, {"params": variances, "lr": self.variance_lr}]
        )
        return [training.sgd(each for each in model.parameters() if id(each) not in noisy), adam]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Lowers the learning rates: SGD's along a cosine, Adam's linearly."""
        weights, adam = optimizers
        scale_lr_(weights, cosine(progress))
        means, variances = adam.param_groups
        means["lr"] = self.mean_lr * (1 - progress)
        variances["lr"] = 0.0 if self._is_quiet(progress) else self.variance_lr * (1 - progress)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """The divergence from the prior, per image; nothing once the noise is off."""
        if self._is_quiet(progress):
            return None
        return self.price_at(progress) / self.num_images * divergence(_noisy(model))

    def price_at(self, progress: float) -> float:
        """The factor on the divergence at this progress."""
        if self._is_quiet(progress):
            return 0.0
        over = self.ramp - self.wait
        height = (
            min(1.0, max(0.0, progress - self.wait) / over)
            if over
            else float(progress >= self.wait)
        )
        return self.price * height

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Switches the noise off when it is time."""
        if self._is_quiet(progress):
            for each in _noisy(model):
                each.settle_()

    @property
    def freezes_at(self) -> float | None:
        """Progress at which the noise is switched off, if that is before the end."""
        return self.freeze if self.freeze < 1 else None

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model in which the weights with too much noise are zero."""
        return unwrap_(model, Noisy, lambda noisy: noisy.without_noise())  # type: ignore[operator]

    def _is_quiet(self, progress: float) -> bool:
        return self.freeze < 1 and progress >= self.freeze


def _noisy(model: nn.Module) -> list[Noisy]:
    return [module for module in model.modules() if isinstance(module, Noisy)]


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
