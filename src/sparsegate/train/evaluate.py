"""Accuracy of a model, and the count of what is left of it."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn

from sparsegate.data import Normalise, Split
from sparsegate.record import Layer

BATCH = 1000


@torch.no_grad()
def accuracy(model: nn.Module, split: Split, normalise: Normalise, accelerator: Accelerator) -> float:
    """Percentage of images that a model labels rightly, in eval; every process takes its part of the images."""
    was_training = model.training
    model.eval()
    rank, world = accelerator.process_index, accelerator.num_processes
    right = torch.zeros((), dtype=torch.int64, device=split.labels.device)
    for begin in range(rank * BATCH, len(split), world * BATCH):
        part = split.part(begin, begin + BATCH)
        with accelerator.autocast():
            logits = model(normalise(part.images))
        right += (logits.argmax(1) == part.labels).sum()
    model.train(was_training)
    return 100 * int(accelerator.reduce(right, "sum")) / len(split)


def count_layers(model: nn.Module) -> tuple[Layer, ...]:
    """The weights of an ordinary model, tied ones once: every parameter of two or more dimensions."""
    return tuple(
        Layer(name, tuple(weight.shape), weight.numel(), int(torch.count_nonzero(weight)))
        for name, weight in model.named_parameters()
        if weight.ndim >= 2
    )


def count_biases(model: nn.Module) -> tuple[int, int]:
    """How many parameters are not weights, and how many of those are not zero."""
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    return sum(each.numel() for each in others), sum(int(torch.count_nonzero(each)) for each in others)
