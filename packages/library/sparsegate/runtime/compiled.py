"""Registers a sparse network as one operator that torch.compile does not look into."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .network import SparseNetwork

NETWORKS: WeakValueDictionary[str, SparseNetwork] = WeakValueDictionary()
"""The sparse networks of this process; compiled code knows them by name."""
INFERENCE_ONLY = (
    "a network made by sg.sparse is for inference only; train the ordinary model, then call "
    "sg.sparse again"
)
UNTRACED = "a sparse network cannot be traced or exported; take the ordinary model"
is_exporting: Callable[[], bool] = getattr(
    torch.compiler, "is_exporting", lambda: False
)  # torch 2.7 and later
_numbers = count()


def register(network: SparseNetwork) -> str:
    """Gives a network a name for compiled code."""
    name = f"network {next(_numbers)}"
    NETWORKS[name] = network
    return name


@torch.library.custom_op(
    "sparsegate::sparse_network", mutates_args=(), schema="(Tensor x, str name) -> Tensor"
)
def call_by_name(x: Tensor, name: str) -> Tensor:
    """The output of the network of this name."""
    out: Tensor = NETWORKS[name](x)
    return out.contiguous()


@call_by_name.register_fake
def _empty(x: Tensor, name: str) -> Tensor:
    if is_exporting():
        raise RuntimeError(UNTRACED)
    return NETWORKS[name].empty_output(x)


def _refuse(ctx: Any, *grads: Tensor) -> Any:  # noqa: ARG001
    raise RuntimeError(INFERENCE_ONLY)


call_by_name.register_autograd(_refuse)
