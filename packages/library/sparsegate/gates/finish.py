"""Turns a gated model into an ordinary one whose removed weights are exactly zero."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.utils import parametrize

from sparsegate.sharded import is_sharded

from .census import check_finite_gates
from .draw import OPEN_ABOVE
from .gate import Gate
from .install import AnyModule, require_gates, unwrapped
from .recurrent import read_directly_

LOGGER = logging.getLogger(__name__)
FEW = 0.01
"""Share of the weights; a training that removes fewer has had no effect."""


class UnfinishedTarget(UserWarning):
    """A model is finished before training has reached its target."""


class NothingRemoved(UserWarning):
    """A model is finished although training has removed next to none of its weights."""


@torch.no_grad()
def finish(model: AnyModule) -> AnyModule:
    """Replaces every gated weight by its masked value, in place, and returns the ordinary model.

    >>> from sparsegate.gates import Constant, gate
    >>> layer = finish(gate(nn.Linear(2, 1, bias=False), start=Constant(0.1)))
    >>> layer.weight
    Parameter containing:
    tensor([[0., 0.]], requires_grad=True)

    The state dict has the keys that it had before gating, in the same order. Outputs equal those
    of the gated model in eval mode bit for bit. Weights keep their identity as parameters, so ties
    survive.

    Args:
        model: A gated model; it may be compiled or wrapped in DistributedDataParallel.

    Returns:
        The ordinary model, without a wrapper of torch.compile or DistributedDataParallel.

    Raises:
        ValueError: If the model has no gates, has NaN gates, is sharded, or has another
            parametrization on top of a gate.
    """
    found = require_gates(model)
    check_finite_gates({name: gate.gate for name, gate in found.items()})
    model = unwrapped(model)  # type: ignore[assignment]
    if any(is_sharded(parameter) for parameter in model.parameters()):
        raise ValueError(
            "the model is sharded (fully_shard); load its full state dict into an unsharded gated "
            "model and finish that"
        )
    _warn_if_awaited(found.values())
    _report(list(found.values()))
    sites = [(module, tensor) for module in model.modules() for tensor in _gated_tensors(module)]
    for module, tensor in sites:
        _check_on_top(module, tensor)
    for module, tensor in sites:
        _bake_(module, tensor)
        _restore_class_(module, tensor)
    return model


def _warn_if_awaited(gates: Iterable[Gate]) -> None:
    """Warns if a target has not made its cut."""
    gates = list(gates)
    if awaited := gates[0].awaited:
        kept = sum(int((gate.gate > OPEN_ABOVE).sum()) for gate in gates)
        total = sum(gate.gate.numel() for gate in gates)
        warnings.warn(
            f"the target {awaited} is not reached: {kept:,} of {total:,} weights are still kept; "
            "train to the end before finishing, or pass the steps that training really has",
            UnfinishedTarget,
            stacklevel=4,
        )


def _report(gates: list[Gate]) -> None:
    """Logs how many weights are kept, and warns if training has closed next to none."""
    kept = sum(int((gate.gate > OPEN_ABOVE).sum()) for gate in gates)
    total = sum(gate.gate.numel() for gate in gates)
    LOGGER.info("finished with %s of %s gated weights", f"{kept:,}", f"{total:,}")
    if (
        any(_has_moved(gate) for gate in gates)
        and total - kept < FEW * total
        and not gates[0].awaited
    ):
        warnings.warn(
            f"training has moved the gates and closed only {total - kept:,} of {total:,}: the "
            "model is as good as dense; raise the gates' learning rate or Penalty.count, train for "
            "longer, or pass target=Target(keep=...) to the optimizer of the gates",
            NothingRemoved,
            stacklevel=4,
        )


def _has_moved(gate: Gate) -> bool:
    """Whether an optimizer has moved a gate."""
    movable = gate.gate.requires_grad or gate.whole
    if not movable or not (gate.moved or gate.differs_from_start()) or gate.gate.numel() == 0:
        return False
    return bool(gate.gate.min() != gate.gate.max())


def _gated_tensors(module: nn.Module) -> list[str]:
    if not parametrize.is_parametrized(module):
        return []
    lists = module.parametrizations
    return [str(tensor) for tensor, steps in lists.items() if isinstance(steps[0], Gate)]  # type: ignore[union-attr, operator]


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
