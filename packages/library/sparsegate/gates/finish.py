"""Turns a gated model into an ordinary one whose removed weights are exactly zero."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from sparsegate.sharded import is_sharded

from .gate import Gate
from .install import require_gates, unwrapped
from .recurrent import read_directly_


@torch.no_grad()
def finish(model: nn.Module) -> nn.Module:
    """Replaces every gated weight by its masked value, in place, and returns the ordinary model.

    >>> from sparsegate.gates import Constant, gate
    >>> layer = finish(gate(nn.Linear(2, 1, bias=False), start=Constant(0.1)))
    >>> layer.weight
    Parameter containing:
    tensor([[0., 0.]], requires_grad=True)

    The state dict has the keys it had before gating, in the same order; outputs equal those of the gated model in eval
    bit for bit. Weights keep their identity as parameters, so ties survive. A compiled or DDP wrapper is taken off.
    """
    require_gates(model)
    model = unwrapped(model)
    if any(is_sharded(parameter) for parameter in model.parameters()):
        raise ValueError(
            "the model is sharded (fully_shard); load its full state dict into an unsharded gated model and finish that"
        )
    sites = [(module, tensor) for module in model.modules() for tensor in _gated_tensors(module)]
    for module, tensor in sites:
        _check_on_top(module, tensor)
    for module, tensor in sites:
        _bake_(module, tensor)
        _restore_class_(module, tensor)
    return model


def _gated_tensors(module: nn.Module) -> list[str]:
    lists = getattr(module, "parametrizations", None) if parametrize.is_parametrized(module) else {}
    return [str(tensor) for tensor, steps in lists.items() if isinstance(steps[0], Gate)]  # type: ignore[union-attr]


def _check_on_top(module: nn.Module, tensor: str) -> None:
    if len(module.parametrizations[tensor]) > 1:  # type: ignore[index, arg-type]
        raise ValueError(
            f"{tensor} has another parametrization on top of its gate; remove that before finishing"
        )


def _bake_(module: nn.Module, tensor: str) -> None:
    lists = module.parametrizations
    assert isinstance(lists, nn.ModuleDict)
    weight, gate = lists[tensor].original, lists[tensor][0]  # type: ignore[index]
    assert isinstance(weight, nn.Parameter)
    assert isinstance(gate, Gate)
    weight.copy_(gate.eval()(weight))
    order: list[str] = lists.order  # type: ignore[assignment]
    del lists[tensor]
    module._parameters[tensor] = weight
    module._parameters.update(
        {name: module._parameters.pop(name) for name in order if name in module._parameters}
    )


def _restore_class_(module: nn.Module, tensor: str) -> None:
    # torch's remove_parametrizations deletes the property from the class that parametrize made for
    # the module. A deep copy shares that class, so finishing the copy would break the original.
    made = type(module)
    if parametrize.is_parametrized(module):
        rest = {
            name: value
            for name, value in vars(made).items()
            if name not in (tensor, "__dict__", "__weakref__")
        }
        module.__class__ = type(made.__name__, made.__bases__, rest)
        return
    del module.parametrizations
    module.__class__ = made.__bases__[0]
    read_directly_(module)
