"""The memory of a model's tensors that nobody minds being written to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .tensors import NAMES


def plain_memory(model: nn.Module) -> dict[str, Tensor]:
    """Tensors that `load_state_dict` would only copy into: of modules that load in the ordinary way, on the CPU.

    >>> list(plain_memory(nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))))  # a norm has a way of its own
    ['0.weight', '0.bias']
    """
    special = tuple(_dotted(name) for name, module in model.named_modules() if _is_special(module))
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith(special) and _is_plain(tensor)
    }


def _dotted(name: str) -> str:
    return f"{name}." if name else ""


def _is_special(module: nn.Module) -> bool:
    """Whether a module has a say in how it, or a module in it, is stored or loaded."""
    hooks = (
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
    )
    methods = ("_load_from_state_dict", "load_state_dict", "_save_to_state_dict", "state_dict")
    own = any(getattr(type(module), name) is not getattr(nn.Module, name) for name in methods)
    return own or any(getattr(module, name) for name in hooks)


def _is_plain(tensor: object) -> bool:
    return (
        type(tensor) is Tensor
        and tensor.dtype in NAMES
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )
