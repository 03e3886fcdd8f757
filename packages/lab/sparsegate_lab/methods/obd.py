"""Optimal brain damage: LeCun, Denker and Solla, 1989."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap  # type: ignore[attr-defined]
from torch.nn import functional as F

from sparsegate_lab.layers import cut_to_, masks
from sparsegate_lab.method import Judge
from sparsegate_lab.pruning_rounds import PruningRounds

CHUNK = 50  # images whose gradients are held at once, each as large as the network


@dataclass(frozen=True)
class OBD(PruningRounds):
    """Prunes the weights that the diagonal of the Hessian says cost least; in rounds."""

    # Differs from LeCun et al. 1989: 1. the diagonal is that of the Fisher matrix, with labels
    # drawn from the network's own predictions; for cross-entropy its mean equals the Gauss-Newton
    # approximation that they use. 2. they delete a few weights at a time by hand; here each round
    # removes a fraction.

    num_images: int = 500
    """Number of training images that measure the curvature."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_images < 1:
            raise ValueError(f"num_images is at least 1, got {self.num_images}")

    def cut_(self, model: nn.Module, judge: Judge, keep: float) -> None:
        """Measures the curvature and removes the weights of the lowest saliency."""
        curves = curvature(model, list(masks(model)), judge.images(self.num_images))
        weights = {name: each.weight.detach() for name, each in masks(model).items()}
        saliency = {name: curves[name] * weight**2 / 2 for name, weight in weights.items()}
        cut_to_(model, keep, saliency)


def curvature(model: nn.Module, names: list[str], images: Tensor) -> dict[str, Tensor]:
    """The diagonal of the Fisher matrix, in eval mode, with labels drawn from the predictions.

    Args:
        model: the model.
        names: the weights to measure.
        images: normalized images.
    """
    was_training = model.training
    model.eval()
    weights = {name: weight.detach() for name, weight in model.named_parameters() if name in names}
    total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    slopes = vmap(grad(_loss_of_one, argnums=1), in_dims=(None, None, 0, 0))
    # On the CPU with a fixed seed, so that every process draws the same labels.
    draw = torch.Generator().manual_seed(0)
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
