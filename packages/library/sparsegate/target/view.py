"""What a goal sees of the gates: counts, and what a cut would come to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sparsegate.gates import require_gates, unwrapped

from .count import num_true
from .cut import choose
from .goal import View
from .size import file_bytes

OPEN_ABOVE = 0.5


class GatesView(View):
    """The gates of a model, with a judge of its accuracy if there is one."""

    def __init__(self, model: nn.Module, judge: Callable[[], float] | None) -> None:
        self._model, self._judge = model, judge
        self.gates = require_gates(model)
        self._weights = _weights(model)

    def num_layers(self) -> int:
        """How many weights have gates."""
        return len(self.gates)

    def num_gates(self) -> int:
        """How many gates there are, on all processes together."""
        return sum(each.gate.numel() for each in self.gates.values())

    def num_open(self) -> int:
        """How many gates are open now."""
        return num_true(each.gate > OPEN_ABOVE for each in self.gates.values())

    def masks(self, count: int) -> dict[str, Tensor]:
        """The masks of an exact cut; equal gates by the size of their weights."""
        values = [each.gate.detach() for each in self.gates.values()]
        return dict(
            zip(
                self.gates,
                choose(values, [weight.detach().abs() for weight in self._weights], count),
                strict=True,
            )
        )

    def bytes_of(self, count: int) -> int:
        """Bytes of the file after a cut."""
        return file_bytes(self._model, self.masks(count))

    @torch.no_grad()
    def accuracy_of(self, count: int) -> float:
        """Accuracy after a cut, which is undone."""
        before = [each.gate.detach().clone() for each in self.gates.values()]
        self.close_(self.masks(count))
        found = self.accuracy()
        for each, value in zip(self.gates.values(), before, strict=True):
            each.gate.copy_(value)
        return found

    def accuracy(self) -> float:
        """What the judge says."""
        if self._judge is None:
            raise ValueError(
                "max_drop needs judge=, a function that gives the validation accuracy of the model in per cent, "
                "the same on every process"
            )
        return float(self._judge())

    @torch.no_grad()
    def close_(self, masks: dict[str, Tensor]) -> None:
        """Sets every gate to one or zero."""
        for each, mask in zip(self.gates.values(), masks.values(), strict=True):
            each.gate.copy_(mask.to(each.gate.dtype))


def _weights(model: nn.Module) -> list[Tensor]:
    """The weights behind the gates, in their order."""
    inner = unwrapped(model)
    found = []
    for name in require_gates(model):
        owner, _, tensor = name.rpartition(".")
        module = inner.get_submodule(owner)
        found.append(module.parametrizations[tensor].original)  # type: ignore[index, union-attr]
    return found
