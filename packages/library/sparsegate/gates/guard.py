"""Stops optimizers that would move gates as if they were weights, or twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakSet, ref

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from .gate import Gate

_gates: WeakSet[Gate] = WeakSet()
_checked: WeakSet[Optimizer] = WeakSet()
_is_watching = False


def watch(gate: Gate) -> None:
    """Adds a gate to those that no ordinary optimizer may move together with weights."""
    global _is_watching
    _gates.add(gate)
    if not _is_watching:
        register_optimizer_step_pre_hook(_check)
        _is_watching = True


class Mover:
    """Knows which optimizer moves some gates, so that a second one is noticed.

    Args:
        gates: The gates' parameters.
    """

    def __init__(self, gates: list[Tensor]) -> None:
        ids = {id(gate) for gate in gates}
        self._gates = [gate for gate in _gates if id(gate.gate) in ids]
        self._has_moved = False

    def check(self) -> None:
        """Raises if another optimizer has moved the gates since this one did."""
        if not self._gates:
            return
        last: ReferenceType[Mover] | None = self._gates[0].mover
        other = None if last is None else last()
        if other is not None and other is not self and self._has_moved:
            raise ValueError(
                "two optimizers move the same gates, each by another plan; keep one of "
                "them: GatedAdamW or GatedSGD alone, or GateSGD next to an optimizer of "
                "sparsegate.weights(model)"
            )
        self._has_moved = True
        if other is not self:
            for gate in self._gates:
                gate.mover = ref(self)


def _check(optimizer: Optimizer, *_: Any) -> None:
    """Raises at the first step of an optimizer that has both weights and gates but no plan."""
    if torch.compiler.is_compiling() or optimizer in _checked:
        return
    _checked.add(optimizer)
    if getattr(optimizer, "moves_gates", False):
        return
    given = {id(each) for group in optimizer.param_groups for each in group["params"]}
    gates = {id(gate.gate) for gate in _gates if gate.gate.requires_grad}
    if given & gates and given - gates:
        raise ValueError(
            f"{type(optimizer).__name__} moves gates as if they were weights: with weight decay, "
            "without their price, and beyond [0, 1]; use sparsegate.GatedAdamW(model, ...), or "
            "give it sparsegate.weights(model) and step sparsegate.GateSGD(model) as well; in "
            "transformers use sparsegate.integrations.transformers.SparseTrainer"
        )
