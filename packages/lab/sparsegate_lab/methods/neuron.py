"""Merging of similar neurons: Srinivas and Babu, Data-free Parameter Pruning, 2015."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from sparsegate.graph import linear_readers
from sparsegate_lab.layers import Resized, linears, replace_, stand_ins
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class Neuron(Method):
    """Trains densely, then merges neurons of chosen layers that compute nearly the same."""

    # Differs from Srinivas and Babu 2015: 1. the number of remaining neurons is a setting; the paper
    # reads it off the curve of saliencies. 2. several layers may be merged, in their order.

    keep: float = 0.7
    """Fraction of a chosen layer's neurons that remain."""

    only: tuple[str, ...] = ("fc1.*",)
    """Patterns of the fully connected weights whose neurons are merged."""

    at: float = 1.0
    """Fraction of training before neurons are merged; 1, as in the paper, trains no further."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(
                f"keep is a fraction in (0, 1], got {self.keep}; for 30 % of the neurons write keep=0.3"
            )
        if not 0 <= self.at <= 1:
            raise ValueError(f"at is a fraction of training in [0, 1], got {self.at}")

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Checks the layers; a resumed run gets the smaller layers if it had them."""
        for name in linears(model, self.only):
            linear_readers(model, name)
        self._shrink_(model, progress)
        return model

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Merges neurons when it is time."""
        self._shrink_(model, progress)

    def finish(self, model: nn.Module) -> nn.Module:
        """The model with its smaller layers."""
        return model

    @torch.no_grad()
    def _shrink_(self, model: nn.Module, progress: float) -> None:
        """Replaces the chosen layers, and the layers that read them, with smaller ones."""
        if progress < self.at or stand_ins(model):
            return
        before = {
            name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)
        }
        for name in linears(model, self.only):
            self._merge_(model, name)
        for name, old in before.items():
            new = model.get_submodule(name)
            if new is not old:
                assert isinstance(new, nn.Linear)
                replace_(model, new, Resized(old, by=new))

    def _merge_(self, model: nn.Module, name: str) -> None:
        layer, readers = model.get_submodule(name), linear_readers(model, name)
        assert isinstance(layer, nn.Linear)
        num_kept = max(1, round(self.keep * layer.out_features))
        incoming = (
            layer.weight
            if layer.bias is None
            else torch.cat((layer.weight, layer.bias[:, None]), dim=1)
        )
        kept, outgoing = merged(
            incoming, torch.cat([reader.weight for reader in readers]), num_kept
        )
        replace_(
            model,
            layer,
            _linear(layer.weight[kept], None if layer.bias is None else layer.bias[kept]),
        )
        parts = torch.split(outgoing, [each.out_features for each in readers])
        for reader, weight in zip(readers, parts, strict=True):
            replace_(model, reader, _linear(weight, reader.bias))


def merged(
    incoming: Float[Tensor, "neurons inputs"],
    outgoing: Float[Tensor, "outputs neurons"],
    num_kept: int,
) -> tuple[Int64[Tensor, " kept"], Float[Tensor, "outputs kept"]]:
    """Merges neurons pair by pair, cheapest first.

    Neuron j is merged into neuron i at the cost `mean(a_j^2) |W_i - W_j|^2`; i then sends what both
    sent.

    >>> merged(torch.tensor([[1.0], [5.0], [1.0]]), torch.tensor([[2.0, 3.0, 4.0]]), 2)
    (tensor([0, 1]), tensor([[6., 3.]]))

    Args:
        incoming: one row of weights per neuron, W.
        outgoing: the weights with which other neurons read them, a.
        num_kept: how many neurons remain.

    Returns:
        The remaining neurons, and their new outgoing weights.
    """
    outgoing = outgoing.clone()
    distance = torch.cdist(incoming, incoming, compute_mode="donot_use_mm_for_euclid_dist").square()
    distance.fill_diagonal_(torch.inf)
    power = outgoing.square().mean(dim=0)
    alive = torch.ones_like(power, dtype=torch.bool)
    for _ in range(len(incoming) - num_kept):
        into, gone = _cheapest(distance, power)
        outgoing[:, into] += outgoing[:, gone]
        power[into] = outgoing[:, into].square().mean()
        distance[gone], distance[:, gone], alive[gone] = torch.inf, torch.inf, False
    kept = alive.nonzero().flatten()
    return kept, outgoing[:, kept]


def _cheapest(distance: Float[Tensor, "n n"], power: Float[Tensor, " n"]) -> tuple[int, int]:
    """The cheapest merge: the neuron that remains, and the one that goes."""
    # torch.where, because infinity times zero is NaN.
    cost = torch.where(distance.isinf(), torch.inf, distance * power)
    return divmod(int(cost.argmin()), len(power))


def _linear(
    weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None
) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer
