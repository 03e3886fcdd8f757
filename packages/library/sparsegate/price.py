"""The price of gates: how many weights are open, and how undecided they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparsegate.gates import require_gates


class Slope(NamedTuple):
    """The gradient of the price as a line over the gate: `base + tilt * gate`."""

    base: float
    tilt: float

    def times(self, factor: float) -> Slope:
        """The slope of a price that is so many times as high."""
        return Slope(factor * self.base, factor * self.tilt)


@dataclass(frozen=True)
class Penalty:
    """`bimodal * mean g(1-g) + count * mean g`: the two terms of the paper, with a unit a person understands.

    The paper writes plain sums, which no single constant fits: the mean makes `count` what a fully open network would
    add to the loss. Called with a gated model it gives the price as a tensor, for `loss + penalty(model)`; handed to
    `GateSGD` it is added in the optimiser's own pass. Both give the same gradient.
    """

    count: float = 2.0
    """Price of the weights: what a fully open network would add to the loss, in nats (the paper's lambda2)."""

    bimodal: float = 0.0
    """Price of undecided gates: four times what a network with all gates at 0.5 would add (the paper's lambda1)."""

    per: Literal["network", "layer"] = "network"
    """One mean over all gates, or one mean per layer, summed, which charges a small layer's weights more."""

    def __post_init__(self) -> None:
        if not (self.count >= 0 and self.bimodal >= 0):
            raise ValueError(
                f"prices are zero or more, got count={self.count}, bimodal={self.bimodal}"
            )
        if self.per not in ("network", "layer"):
            raise ValueError(f"per is 'network' or 'layer', got {self.per!r}")

    def __call__(self, model: nn.Module) -> Float[Tensor, ""]:
        """The price of a gated model, differentiable in its gates."""
        values = [each.gate for each in require_gates(model).values()]
        shares = self._shares([value.numel() for value in values])
        prices = [
            share * (self.bimodal * (value * (1 - value)).sum() + self.count * value.sum())
            for value, share in zip(values, shares, strict=True)
        ]
        return torch.stack(prices).sum()

    def slopes(self, sizes: Sequence[int]) -> list[Slope]:
        """The gradient of the price for gates of these sizes.

        >>> Penalty(count=6.0, bimodal=3.0).slopes([1, 2])
        [Slope(base=3.0, tilt=-2.0), Slope(base=3.0, tilt=-2.0)]
        """
        # d/dg [bimodal * g(1-g) + count * g] = bimodal + count - 2 * bimodal * g
        base, tilt = self.bimodal + self.count, -2 * self.bimodal
        return [Slope(share * base, share * tilt) for share in self._shares(sizes)]

    def _shares(self, sizes: Sequence[int]) -> list[float]:
        if self.per == "layer":
            return [1 / size for size in sizes]
        return [1 / sum(sizes)] * len(sizes)
