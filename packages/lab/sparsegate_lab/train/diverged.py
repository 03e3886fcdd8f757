"""Stops a run whose loss, weights or gates are no longer finite."""

from __future__ import annotations

import math

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from sparsegate.gates import gates
from sparsegate.sharded import local


class DivergedError(RuntimeError):
    """The loss, a weight or a gate is NaN or infinite."""


def check_loss(loss: float, epoch: int, lr: float) -> None:
    """Raises if the loss of an epoch is not finite."""
    if not math.isfinite(loss):
        raise DivergedError(
            f"the loss became {loss} in epoch {epoch}; lower lr (now {lr}) or the gates' learning "
            "rate; nothing of this epoch was kept"
        )


@torch.no_grad()
def check_weights(model: nn.Module, epoch: int, accelerator: Accelerator) -> None:
    """Raises if a parameter or buffer of the model is not finite; all processes must call it."""
    tensors = [
        (name, local(tensor))
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if tensor.is_floating_point()
    ]
    flags = [(~torch.isfinite(tensor)).any() for _, tensor in tensors]
    if not flags:
        return
    # Processes that share a model see different parts of it, and all must stop.
    broken: Tensor = accelerator.reduce(torch.stack(flags).float(), "sum")
    names = [name for (name, _), flag in zip(tensors, broken.tolist(), strict=True) if flag]
    if names:
        raise DivergedError(
            f"{_words(model, names[0])} became NaN or infinite in epoch {epoch}; lower lr, the "
            "gates' learning rate or the penalty; nothing of this epoch was kept"
        )


def _words(model: nn.Module, name: str) -> str:
    """What a parameter is called in errors.

    >>> _words(nn.Linear(2, 2), "weight")
    'weight'
    """
    parameters = dict(model.named_parameters())
    for gated, gate in gates(model).items():
        if parameters.get(name) is gate.gate:
            return f"the gates of {gated}"
    return name.replace("parametrizations.", "").removesuffix(".original")
