"""Measures the accuracy of a model, and counts its weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor, nn

from sparsegate_lab.data import Split
from sparsegate_lab.layers import StandIn
from sparsegate_lab.record import SIZE_EDGES, Layer

BATCH = 1000
MAX_BYTES = 2**25  # of a batch's images: 222 photographs of 224x224, all of a thousand small ones


@torch.no_grad()
def accuracy(
    model: nn.Module, split: Split, normalise: Callable[[Tensor], Tensor], accelerator: Accelerator
) -> float:
    """Percentage of images that a model classifies correctly, in eval mode.

    Every process evaluates a part of the images, with the first process's statistics of BatchNorm,
    which the saved network has too.
    """
    was_training = model.training
    model.eval()
    if accelerator.num_processes > 1:
        for statistic in model.buffers():
            broadcast(statistic)
    rank, world = accelerator.process_index, accelerator.num_processes
    right = torch.zeros((), dtype=torch.int64, device=accelerator.device)
    batch = max(1, min(BATCH, MAX_BYTES // split.images[0].numel()))
    for begin in range(0, len(split), world * batch):
        part = split.part(begin + rank * batch, begin + (rank + 1) * batch).to(accelerator.device)
        # Processes that share a sharded model must all run it, so one without images takes one.
        images = part.images if len(part) else split.part(0, 1).to(accelerator.device).images
        images = normalise(images)  # in full precision, as in training
        with accelerator.autocast():
            labels = model(images).argmax(1)
        right += (labels[: len(part)] == part.labels).sum()
    model.train(was_training)
    return 100 * int(accelerator.reduce(right, "sum")) / len(split)


def count_layers(model: nn.Module) -> tuple[Layer, ...]:
    """The weights of an ordinary model: parameters of two or more dimensions, and stand-ins."""
    counted = _of_stand_ins(model)
    layers: list[Layer] = []
    for path, module in model.named_modules():
        if isinstance(module, StandIn):
            shape = module.stands_for
            name = f"{path}.weight"
            layers.append(
                Layer(name, shape, math.prod(shape), module.num_values, module.num_indices)
            )
        for tensor, weight in module.named_parameters(path, recurse=False):
            if weight.ndim >= 2 and weight not in counted:
                counted.add(weight)
                layers.append(
                    Layer(
                        tensor,
                        tuple(weight.shape),
                        weight.numel(),
                        int(torch.count_nonzero(weight)),
                    )
                )
    return tuple(layers)


def count_biases(model: nn.Module) -> tuple[int, int]:
    """The number of parameters that are not weights, and how many of them are not zero."""
    weights = _of_stand_ins(model)
    others = [each for each in model.parameters() if each.ndim < 2 and each not in weights]
    return sum(each.numel() for each in others), sum(
        int(torch.count_nonzero(each)) for each in others
    )


def count_sizes(model: nn.Module) -> tuple[int, ...]:
    """Histogram of the sizes of nonzero weights, with the bins of a record."""
    stand_ins = _of_stand_ins(model)
    weights = [each.detach() for each in model.parameters() if each.ndim >= 2 or each in stand_ins]
    sizes = torch.cat([weight[weight != 0].abs().double().cpu() for weight in weights])
    bins = torch.bucketize(sizes, torch.tensor(SIZE_EDGES, dtype=torch.float64), right=True)
    return tuple(torch.bincount(bins, minlength=len(SIZE_EDGES) + 1).tolist())


def _of_stand_ins(model: nn.Module) -> set[nn.Parameter]:
    """The parameters that stand-ins count: all except their biases."""
    stand_ins = [module for module in model.modules() if isinstance(module, StandIn)]
    return {
        each for module in stand_ins for name, each in module.named_parameters() if name != "bias"
    }
