"""Gives goals a view of a model's gates: counts, and what a cut would leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.files import compress, encode_sg
from sparsegate.gates import (
    OPEN_ABOVE,
    Gate,
    Graded,
    Threshold,
    gated_weights,
    require_gates,
    unwrapped,
)
from sparsegate.sharded import shared_like, whole

from .count import num_true
from .cut import choose
from .goal import View
from .recent_mean import RecentMean

ORDER = "order"  # in an optimizer's state: where gates were put last
GATED = re.compile(r"(?:^|(?<=\.))parametrizations\.(\w+)\.original$")
GATE = re.compile(r"(?:^|(?<=\.))parametrizations\.\w+\.\d+\.gate$")


class GatesView(View):
    """The gates of a model, with a function that judges its accuracy if there is one.

    Args:
        model: The gated model.
        judge: Returns the model's validation accuracy in percent.
        names: The gated weights to look at; all unless given.
    """

    def __init__(
        self,
        model: nn.Module,
        judge: Callable[[], float] | None,
        names: Collection[str] | None = None,
    ) -> None:
        self._model, self._judge = model, judge
        pairs = {
            name: (gate, weight)
            for (name, gate), weight in zip(
                require_gates(model).items(), gated_weights(model), strict=True
            )
            if names is None or name in names
        }
        self.gates = {name: gate for name, (gate, _) in pairs.items()}
        self._weights = [weight for _, weight in pairs.values()]
        self.mean = RecentMean(model)
        self.is_cut = False

    def num_layers(self) -> int:
        """How many weights have gates."""
        return len(self.gates)

    def num_gates(self) -> int:
        """How many gates there are, on all processes together."""
        return sum(gate.gate.numel() for gate in self.gates.values())

    def num_open(self) -> int:
        """How many gates are open now."""
        return num_true(gate.gate > OPEN_ABOVE for gate in self.gates.values())

    def closed(self) -> list[str]:
        """The weights whose gates have all closed."""
        return [
            name for name, gate in self.gates.items() if num_true([gate.gate > OPEN_ABOVE]) == 0
        ]

    def masks(self, count: int) -> dict[str, Tensor]:
        """The masks of an exact cut; equal gates by the magnitude of their weights.

        Once the mask is frozen all open gates are equal, and magnitudes count within their layer,
        as in `Graded`.
        """
        values = [gate.gate.detach() for gate in self.gates.values()]
        sizes = [weight.detach().abs() for weight in self._weights]
        if self.is_cut:
            sizes = [
                shared_like(size, Graded()(whole(size * value)))
                for size, value in zip(sizes, values, strict=True)
            ]
        return dict(zip(self.gates, choose(values, sizes, count), strict=True))

    def bytes_of(self, count: int) -> int:
        """Bytes of the file after a cut."""
        return file_bytes(self._model, self.masks(count))

    @torch.no_grad()
    def accuracy_of(self, count: int) -> float:
        """Accuracy after a cut, which is undone."""
        before = [gate.gate.detach().clone() for gate in self.gates.values()]
        self.close_(self.masks(count))
        found = self.accuracy()
        for gate, value in zip(self.gates.values(), before, strict=True):
            gate.gate.copy_(value)
        return found

    def accuracy(self) -> float:
        """Accuracy of the mean of recent weights; of the weights of this step without a mean."""
        with self.mean.applied():
            return self._judged()

    def settle_(self) -> None:
        """Replaces the weights by their mean if it is better, and ends the mean."""
        if self.accuracy() > self._judged():
            self.mean.apply_()
        self.mean.forget()

    def _judged(self) -> float:
        if self._judge is None:
            raise ValueError(
                "max_drop needs judge=, a function that returns the model's validation accuracy "
                "in percent, the same on every process"
            )
        return float(self._judge())

    @torch.no_grad()
    def by_size(self, memory: Sequence[dict[str, Any]], *, first: bool) -> list[Tensor | None]:
        """Where the sizes of weights put their gates; None for layers that keep their own order.

        Args:
            memory: For every layer the place where `put_` remembers an order.
            first: Whether gates are put in an order for the first time. Then a layer keeps its own
                if its gates are not all equal, or are drawn at random.
        """
        return [
            shared_like(gate.gate, Graded()(whole(weight.detach())))
            if (_has_no_order(gate) if first else ORDER in kept)
            else None
            for gate, weight, kept in zip(self.gates.values(), self._weights, memory, strict=True)
        ]

    @torch.no_grad()
    def put_(self, orders: Sequence[Tensor | None], memory: Sequence[dict[str, Any]]) -> None:
        """Puts gates in an order, or moves them by what has changed since the last one, in place.

        Args:
            orders: For every layer where its gates belong, if anywhere.
            memory: For every layer a place to remember the order in.
        """
        for gate, order, kept in zip(self.gates.values(), orders, memory, strict=True):
            if order is None:
                continue
            before = kept.get(ORDER)
            if before is None:
                gate.gate.copy_(order)
            else:
                gate.gate.add_(order - before).clamp_(0.0, 1.0)
            kept[ORDER] = order

    @torch.no_grad()
    def close_(self, masks: dict[str, Tensor]) -> None:
        """Sets every gate to one or zero, in place."""
        for gate, mask in zip(self.gates.values(), masks.values(), strict=True):
            gate.gate.copy_(mask.to(gate.gate.dtype))

    def announce_(self, target: str) -> None:
        """Writes the target that is still awaited into all gates, for `finish` to warn."""
        for gate in self.gates.values():
            gate.awaited = target


def _has_no_order(gate: Gate) -> bool:
    """Whether all gates of a layer are equal, and their own threshold says which are open."""
    values = whole(gate.gate.detach())
    return isinstance(gate.draw, Threshold) and bool((values == values.flatten()[0]).all())


@torch.no_grad()
def file_bytes(model: nn.Module, masks: Mapping[str, Tensor]) -> int:
    """Bytes of the finished model's .sg file with these masks of its gated weights, by name."""
    packed = compress(masked_state(model, masks))
    return len(encode_sg(packed.entries, packed.same)[0])


def masked_state(model: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of the model finished with these masks; the model is unchanged."""
    assert set(require_gates(model)) == set(masks)
    inner = unwrapped(model)
    owner = {path: id(weight) for path, weight in inner.named_parameters(remove_duplicate=False)}
    state: dict[str, Tensor] = {}
    masked: dict[int, Tensor] = {}
    for path, value in inner.state_dict().items():
        name = GATED.sub(r"\1", path)
        if name in masks:  # a tied weight has one gate, under its first name
            masked[owner[path]] = whole(value).masked_fill(~whole(masks[name]), 0.0).cpu()
        if not GATE.search(path):
            state[name] = whole(value).cpu() if name == path else masked[owner[path]]
    return state
