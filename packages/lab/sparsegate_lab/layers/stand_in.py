"""CONTRACT StandIn: a layer that replaces a fully connected one and reports what it stores."""

from __future__ import annotations

import abc

from torch import nn


class StandIn(nn.Module, abc.ABC):
    """A layer that replaces a fully connected one with fewer numbers.

    All its parameters count as weights, vectors too, except one named `bias`. What follows from the
    settings, such as a permutation from a seed, is a non-persistent buffer and costs nothing.
    """

    stands_for: tuple[int, int]
    """The shape of the weight that it replaces."""

    @property
    def num_values(self) -> int:
        """Numbers that it stores, without the bias."""
        return sum(each.numel() for name, each in self.named_parameters() if name != "bias")

    @property
    def num_indices(self) -> int:
        """32-bit indices that it stores in addition to its values."""
        return 0


def stand_ins(model: nn.Module) -> dict[str, StandIn]:
    """The stand-ins of a model by name."""
    return {name: each for name, each in model.named_modules() if isinstance(each, StandIn)}
