"""Dropout before fully connected layers, with a rate that falls with their sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

AnyModule = TypeVar("AnyModule", bound=nn.Module)
BUFFER = "input_dropout"
HANDLE = "_input_dropout_hook"
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def add_dropout(model: AnyModule, rate: float) -> AnyModule:
    """Adds dropout to the inputs of every Linear layer except a first one, in place.

    >>> model = add_dropout(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 0.5)
    >>> dropout_rates(model)
    {'2': 0.5}

    The rate is a buffer of the layer; `scale_dropout_` lowers it.
    """
    layers = [module for module in model.modules() if isinstance(module, LAYERS)]
    chosen = [layer for layer in layers[1:] if isinstance(layer, nn.Linear)]
    if not chosen:
        raise ValueError("dropout needs a Linear layer after another layer, and the model has none")
    for layer in chosen:
        layer.register_buffer(BUFFER, torch.tensor([rate, rate]))  # the first and the current rate
        setattr(layer, HANDLE, layer.register_forward_pre_hook(_drop))
    return model


def dropout_rates(model: nn.Module) -> dict[str, float]:
    """The current rates, by layer."""
    return {name: float(each._buffers[BUFFER][1]) for name, each in _dropped(model).items()}  # type: ignore[index]


def scale_dropout_(model: nn.Module, left: Mapping[nn.Module, float]) -> None:
    """Sets each layer's rate to its first rate times the root of the fraction of weights left."""
    for layer in _dropped(model).values():
        rates = layer._buffers[BUFFER]
        assert rates is not None
        rates[1] = rates[0] * left[layer] ** 0.5


def remove_dropout(model: AnyModule) -> AnyModule:
    """Removes the dropout, if there is any, in place."""
    for layer in _dropped(model).values():
        handle: RemovableHandle = getattr(layer, HANDLE)
        # Not handle.remove(): the handle of a copied layer refers to the original.
        layer._forward_pre_hooks.pop(handle.id, None)
        delattr(layer, HANDLE)
        del layer._buffers[BUFFER]
    return model


def _dropped(model: nn.Module) -> dict[str, nn.Module]:
    return {name: module for name, module in model.named_modules() if BUFFER in module._buffers}


def _drop(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    (features,) = args
    return (dropped_out(features, layer._buffers[BUFFER][1]) if layer.training else features,)  # type: ignore[index]


def dropped_out(features: Tensor, rate: Tensor) -> Tensor:
    """The features with the fraction `rate` set to zero, the others scaled up."""
    # Not nn.Dropout: its rate is a Python number, which a checkpoint would not hold.
    keep = torch.rand_like(features) >= rate
    return torch.where(keep, features, 0.0) / (1 - rate)
