"""Sparse variational dropout: Molchanov, Ashukha, Vetrov, Variational Dropout Sparsifies Deep Networks, 2017."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsegate_lab.layers import Noisy, divergence, layers_of, unwrap_, wrap_
from sparsegate_lab.method import Method


@dataclass(frozen=True)
class SparseVD(Method):
    """Learns how much noise each weight bears; one that bears any noise is not needed."""

    # Differs from Molchanov et al. 2017: 1. biases are trained by the run's own optimiser (SGD), not by Adam. 2. the
    # variances may have a learning rate of their own, for trainings shorter than their 200 epochs. 3. with `freeze`
    # below one, training ends without noise.

    price: float = 1.0
    """Factor on the divergence from the prior; 1 is the variational bound."""

    num_images: int = 55_000
    """Training images over which the divergence is spread."""

    wait: float = 0.05
    """Fraction of training without a price."""

    ramp: float = 0.25
    """Fraction of training after which the price has its full height."""

    mean_lr: float = 1e-3
    """First learning rate of the weights (Adam); it falls to zero in a line."""

    variance_lr: float = 3e-3
    """First learning rate of the variances' logarithms (Adam); it falls to zero in a line."""

    log_variance: float = -10.0
    """The first value of all variances' logarithms."""

    threshold: float = 3.0
    """A weight is zero where the logarithm of variance over squared mean is this or more."""

    freeze: float = 1.0
    """Fraction of training after which the noise is gone and only the weights that are left move; 1: never."""

    def __post_init__(self) -> None:
        if not (self.price >= 0 and self.num_images >= 1):
            raise ValueError(
                f"wanted price >= 0 and num_images >= 1, got {self.price} and {self.num_images}"
            )
        if not 0 <= self.wait <= self.ramp <= 1:
            raise ValueError(
                f"wanted 0 <= wait <= ramp <= 1, got wait={self.wait}, ramp={self.ramp}"
            )
        if not 0 < self.freeze <= 1:
            raise ValueError(f"freeze is in (0, 1], got {self.freeze}")
        if not (self.mean_lr > 0 and self.variance_lr > 0):
            raise ValueError(
                f"learning rates are above zero, got {self.mean_lr} and {self.variance_lr}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts noise into every Linear and Conv."""
        return wrap_(
            model,
            {
                name: Noisy(layer, log_variance=self.log_variance, threshold=self.threshold)
                for name, layer in layers_of(model).items()
            },
        )

    def weights(self, model: nn.Module) -> list[nn.Parameter]:
        """Everything but the noisy weights and their variances."""
        ours = {
            id(each) for noisy in _noisy(model) for each in (noisy.layer.weight, noisy.log_variance)
        }
        return [parameter for parameter in model.parameters() if id(parameter) not in ours]

    def optimizer(self, model: nn.Module) -> Optimizer:
        """Adam on weights and variances."""
        means = {"params": [each.layer.weight for each in _noisy(model)], "lr": self.mean_lr}
        variances = {
            "params": [each.log_variance for each in _noisy(model)],
            "lr": self.variance_lr,
        }
        return torch.optim.Adam([means, variances])

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Lowers the learning rates."""
        assert optimizer is not None
        means, variances = optimizer.param_groups
        means["lr"] = self.mean_lr * (1 - progress)
        variances["lr"] = 0.0 if self._is_quiet(progress) else self.variance_lr * (1 - progress)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor | None:
        """The divergence from the prior, for one image; nothing when the noise is gone."""
        if self._is_quiet(progress):
            return None
        return self.price_at(progress) / self.num_images * divergence(_noisy(model))

    def price_at(self, progress: float) -> float:
        """The price at this moment."""
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
        """Takes the noise away when it is time."""
        if self._is_quiet(progress):
            for each in _noisy(model):
                each.settle_()

    def settles_at(self) -> float | None:
        """Where the noise ends, if it ends before training does."""
        return self.freeze if self.freeze < 1 else None

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model; the weights with too much noise are zero."""
        return unwrap_(model, Noisy, lambda noisy: noisy.without_noise())  # type: ignore[operator]

    def _is_quiet(self, progress: float) -> bool:
        return self.freeze < 1 and progress >= self.freeze


def _noisy(model: nn.Module) -> list[Noisy]:
    return [module for module in model.modules() if isinstance(module, Noisy)]
