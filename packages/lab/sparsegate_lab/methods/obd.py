"""Optimal brain damage: LeCun, Denker and Solla, 1989."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap  # type: ignore[attr-defined]
from torch.nn import functional as F

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import (
    add_masks,
    apply_masks_,
    cut_to_,
    masks,
    num_to_keep,
    remove_masks,
)
from sparsegate_lab.method import Judge, Method

CHUNK = 50  # images whose gradients are held at a time, each as large as the network


@dataclass(frozen=True)
class OBD(Method):
    """Cuts the weights whose loss is cheapest by the diagonal of the Hessian, and retrains; in rounds."""

    # Differs from LeCun et al. 1989: 1. the diagonal is that of the Fisher matrix, of which labels are drawn from the
    # network's own answers; for cross-entropy it equals the Gauss-Newton approximation that they use, in the mean.
    # 2. they delete a few weights at a time by hand; here a fraction in each round.

    keep: float = 0.08
    """Fraction of weights that is left at the end, over all layers together."""

    rounds: Rounds = field(default_factory=Rounds)
    """When weights are cut."""

    num_images: int = 500
    """Training images by which the curvature is measured."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 92 % sparsity write keep=0.08"
            )
        if self.num_images < 1:
            raise ValueError(
                f"the curvature needs one image at least, got num_images={self.num_images}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts masks beside all weights."""
        return add_masks(model)

    def lr_factor(self, progress: float) -> float:
        """One cosine for dense training, another for retraining."""
        return self.rounds.lr_factor(progress)

    def after_step(self, model: nn.Module, progress: float) -> None:
        """Keeps removed weights at zero."""
        apply_masks_(model)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Measures the curvature and cuts, if it is time."""
        keep = self.rounds.keep(progress, of=self.keep)
        if num_to_keep(model, keep) is not None:
            curves = curvature(model, list(masks(model)), judge.images(self.num_images))
            weights = {name: each.weight.detach() for name, each in masks(model).items()}
            cut_to_(
                model,
                keep,
                {name: curves[name] * weight**2 / 2 for name, weight in weights.items()},
            )

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with exact zeros."""
        return remove_masks(model)


def curvature(model: nn.Module, names: list[str], images: Tensor) -> dict[str, Tensor]:
    """The diagonal of the Fisher matrix for some of a model's weights, in eval, with labels that the model draws."""
    was_training = model.training
    model.eval()
    weights = {name: weight.detach() for name, weight in model.named_parameters() if name in names}
    total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    slopes = vmap(grad(_loss_of_one, argnums=1), in_dims=(None, None, 0, 0))
    draw = torch.Generator().manual_seed(
        0
    )  # on the CPU and fixed: every process must draw the same
    for part in images.split(CHUNK):  # type: ignore[no-untyped-call]
        with torch.no_grad():
            chances = model(part).float().softmax(1).cpu()
        labels = chances.multinomial(1, generator=draw).flatten().to(part.device)
        for name, slope in slopes(model, weights, part, labels).items():
            total[name] += slope.square().sum(0)
    model.train(was_training)
    return {name: each / len(images) for name, each in total.items()}


def _loss_of_one(
    model: nn.Module, weights: dict[str, Tensor], image: Tensor, label: Tensor
) -> Tensor:
    logits = functional_call(model, weights, (image.unsqueeze(0),))
    return F.cross_entropy(logits.float(), label.unsqueeze(0))
