"""CONTRACT StandIn: a layer of its own kind in the place of a fully connected one, which says what it stores."""

from __future__ import annotations

import abc

from torch import nn


class StandIn(nn.Module, abc.ABC):
    """A layer that does the work of a fully connected one with other numbers.

    All its parameters count as weights, vectors too, except one named `bias`. What can be computed again from its
    settings, such as a permutation from a seed, is a buffer that no state dict holds, and costs nothing.
    """

    stands_for: tuple[int, int]
    """The shape of the weight that it replaces."""

    @property
    def num_values(self) -> int:
        """Numbers that it stores, the bias left out."""
        return sum(each.numel() for name, each in self.named_parameters() if name != "bias")

    @property
    def num_indices(self) -> int:
        """Numbers of 32 bits that it stores beside its values to say where they belong; none unless overridden."""
        return 0
