"""Measures all members at the end of an epoch."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from sparsegate.export import Normalise
from sparsegate.gates import OPEN_ABOVE, UNDECIDED, has_closed, histogram
from sparsegate_lab.data import Split
from sparsegate_lab.record import Epoch

from .stack import Stack
from .update import Stacked

IMAGES = 16_000  # of all members together in one pass


class Readings:
    """Counts the gates of all members on request, and remembers the last masks."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.sizes = {name: each.weight[0].numel() for name, each in stack.gated.items()}
        self.masks: dict[str, Bool[Tensor, "member elements"]] = {}

    @torch.no_grad()
    def take(
        self, number: int, losses: list[float], validation: list[float]
    ) -> tuple[list[Epoch], list[list[str]]]:
        """Returns every member's epoch, and its notes about layers that have closed."""
        members = range(len(self.stack.members))
        if not self.sizes:
            whole = self.stack.num_weights
            return [Epoch(number, losses[index], validation[index], whole) for index in members], [
                [] for _ in members
            ]
        kept, rows = self._counts()
        total = sum(self.sizes.values())
        ungated = self.stack.num_weights - total
        undecided, flipped, keep, variance = (row / total for row in rows.unbind(0))
        epochs = [
            Epoch(
                number,
                losses[index],
                validation[index],
                kept=int(kept[:, index].sum()) + ungated,
                undecided=float(undecided[index]),
                flipped=float(flipped[index]),
                keep=float(keep[index]),
                variance=float(variance[index]),
                gates=self.histogram(index),
                layers={name: int(row[index]) for name, row in zip(self.sizes, kept, strict=True)},
            )
            for index in members
        ]
        closed = [
            [has_closed(name) for name, row in zip(self.sizes, kept, strict=True) if not row[m]]
            for m in members
        ]
        return epochs, closed

    def histogram(self, index: int) -> tuple[int, ...]:
        """Returns the histogram of a member's gates; empty if it has none."""
        each = [
            histogram(one.gate[index]) for one in self.stack.gated.values() if one.gate is not None
        ]
        return tuple(torch.stack(each).sum(0).tolist()) if each else ()

    def _counts(self) -> tuple[Int64[Tensor, "weight member"], Float[Tensor, "kind member"]]:
        """Returns open gates of every weight, and totals: undecided, flipped, open, variance."""
        kept, rows = [], []
        for name, each in self.stack.gated.items():
            assert each.gate is not None
            gate = each.gate.flatten(1)
            mask = gate > OPEN_ABOVE
            undecided = ((gate > UNDECIDED[0]) & (gate < UNDECIDED[1])).sum(1)
            flipped = (mask ^ self.masks.get(name, mask)).sum(1)
            keep, variance = _expected(each, gate, mask)
            self.masks[name] = mask
            kept.append(mask.sum(1))
            rows.append(torch.stack([undecided.double(), flipped.double(), keep, variance]))
        return torch.stack(kept).cpu(), torch.stack(rows).sum(0).cpu()


def _expected(each: Stacked, gate: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the weights that a drawn mask keeps and the sum of its variances, per member."""
    if each.noise is None:
        return mask.sum(1).double(), torch.zeros(len(gate), dtype=torch.float64, device=gate.device)
    return gate.double().sum(1), (gate * (1 - gate)).double().sum(1)


@torch.no_grad()
def accuracies(
    stack: Stack, weights: dict[str, Tensor], split: Split, normalise: Normalise
) -> list[float]:
    """Returns the percentage of images that each member classifies correctly."""
    members = len(stack.members)
    size = max(1, IMAGES // members)
    right = torch.zeros(members, dtype=torch.int64, device=split.labels.device)
    for begin in range(0, len(split), size):
        part = split.part(begin, begin + size)
        images = normalise(part.images).repeat(members, 1, 1, 1)
        guessed = stack.run(images, weights).argmax(1).view(members, -1)
        right += (guessed == part.labels).sum(1)
    return [100 * int(number) / len(split) for number in right.cpu()]
