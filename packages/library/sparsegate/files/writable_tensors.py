"""Finds the tensors of a model that a loader may write to directly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .tensors import NAMES

HOOKS = (
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
)
METHODS = ("_load_from_state_dict", "load_state_dict", "_save_to_state_dict", "state_dict")


def writable_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The CPU tensors that `load_state_dict` would only copy into.

    >>> list(writable_tensors(nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))))
    ['0.weight', '0.bias']

    Modules that customize loading or saving, such as BatchNorm, are left out with their children.
    """
    prefixes = [
        f"{name}." if name else "" for name, module in model.named_modules() if _is_custom(module)
    ]
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith(tuple(prefixes)) and _is_plain(tensor)
    }


def _is_custom(module: nn.Module) -> bool:
    overrides = any(getattr(type(module), name) is not getattr(nn.Module, name) for name in METHODS)
    return overrides or any(getattr(module, name) for name in HOOKS)


def _is_plain(tensor: object) -> bool:
    return (
        type(tensor) is Tensor
        and tensor.dtype in NAMES
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )
