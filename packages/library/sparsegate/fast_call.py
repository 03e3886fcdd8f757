"""A call of compiled code on a tensor without the usual microseconds in between."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.nn.modules import module

EXCHANGE = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
"""How torch, from 2.10 on, lets others read and make tensors in C."""
_TORCH = (torch.Tensor, torch.is_grad_enabled, torch.get_num_threads)
_GLOBAL_HOOKS = (module._global_forward_hooks, module._global_forward_pre_hooks)


def direct(
    owner: torch.nn.Module,
    code: tuple[int, int],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    keep: object,
) -> Callable[[Any], Any] | None:
    """Calls code as a module would, or answers NotImplemented; nothing where that cannot be done here.

    The code is the address of a function (context, in, out, count, threads) with its context, or zero and the address
    of hard-wired code; the shapes are those of one input and one output; `keep` lives as long as the call. It answers
    NotImplemented where the module has to be called in full: with gradients, with hooks, with any other input than one
    or more images of this shape in float32, contiguous, without torch's negative bit, and on the CPU.
    """
    if MAKE is None or EXCHANGE is None or not all((*shapes[0], *shapes[1])):
        return None
    return MAKE(EXCHANGE, _TORCH, *code, shapes, hooks_of(owner), keep)


def readable(
    x: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    """The tensor as C code may read it: contiguous in this format, its negative bit resolved.

    Raises ValueError if the storage was freed while the tensor still has elements.
    """
    if x.numel() and x.untyped_storage().nbytes() == 0:
        raise ValueError(
            f"expected an input with memory, got a tensor of shape {tuple(x.shape)} whose storage "
            "was freed (0 bytes); pass a tensor that still holds its values"
        )
    return x.contiguous(memory_format=memory_format).resolve_neg()


def hooks_of(owner: torch.nn.Module) -> tuple[dict[Any, Any], ...]:
    """Who is called with a module: dictionaries, its own and torch's for all modules, that stay the same objects."""
    return owner._forward_hooks, owner._forward_pre_hooks, *_GLOBAL_HOOKS


def _load() -> Callable[..., Callable[[Any], Any]] | None:
    try:
        made: Callable[..., Callable[[Any], Any]] = import_module(
            "sparsegate_runtime.kernels._direct"
        ).Direct
    except ImportError:  # no compiler, or no headers of Python, at installation
        return None
    return made


MAKE = _load()
