"""Calls compiled C code on a tensor and saves the microseconds that a module call takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.nn.modules import module

EXCHANGE = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
"""The interface of torch 2.10 and later for reading and making tensors in C."""
_TORCH = (torch.Tensor, torch.is_grad_enabled, torch.get_num_threads)
_GLOBAL_HOOKS = (module._global_forward_hooks, module._global_forward_pre_hooks)


def direct(
    owner: torch.nn.Module,
    code: tuple[int, int],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    keep: object,
) -> Callable[[Any], Any] | None:
    """Makes a function that runs compiled code instead of calling `owner`.

    The function returns NotImplemented if the module must be called in full: with gradients, with
    hooks, or with an input that is not a contiguous float32 tensor on the CPU, without torch's
    negative bit, of one or more images of the given shape.

    Args:
        owner: the module that the code computes.
        code: the addresses of a function (context, in, out, count, threads) and of its context,
            or zero and the address of hard-wired code.
        shapes: the shapes of one input and of one output.
        keep: an object that must live as long as the function.

    Returns:
        The function, or None if this installation has no direct calls or if a shape has a zero.
    """
    if MAKE is None or EXCHANGE is None or not all((*shapes[0], *shapes[1])):
        return None
    return MAKE(EXCHANGE, _TORCH, *code, shapes, hooks_of(owner), keep)


def readable(
    x: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    """Returns the tensor as C code can read it: contiguous, and with its negative bit resolved.

    Raises ValueError if the storage was freed while the tensor still has elements.
    """
    if x.numel() and x.untyped_storage().nbytes() == 0:
        raise ValueError(
            f"expected an input with memory, got a tensor of shape {tuple(x.shape)} whose storage "
            "was freed (0 bytes); pass a tensor that still holds its values"
        )
    return x.contiguous(memory_format=memory_format).resolve_neg()


def hooks_of(owner: torch.nn.Module) -> tuple[dict[Any, Any], ...]:
    """Returns the dictionaries of the hooks of a module, and of torch's hooks for all modules.

    The dictionaries stay the same objects, so a caller can keep them to see later hooks.
    """
    return owner._forward_hooks, owner._forward_pre_hooks, *_GLOBAL_HOOKS


def _load() -> Callable[..., Callable[[Any], Any]] | None:
    try:
        made: Callable[..., Callable[[Any], Any]] = import_module(
            "sparsegate_runtime.kernels._direct"
        ).Direct
    except ImportError:  # the installation had no compiler or no Python headers
        return None
    return made


MAKE = _load()
