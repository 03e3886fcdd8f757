"""A gate for the rectifier after a fully connected layer; an open gate makes it linear."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.gates import OPEN_ABOVE


class GatedRectifier(nn.Module):
    """A layer with a tri-state rectifier: `x` above zero, `d x` below, with the binary gate d.

    The outputs are lifted above zero, where the model's rectifier has no effect; `Lowered` undoes
    the lift before the layer that reads them. So the model's forward method need not change.
    """

    def __init__(self, inner: nn.Module, *, start: float) -> None:
        super().__init__()
        self.inner = inner
        self.straight = nn.Parameter(torch.full((1,), start))
        self.lift = torch.zeros(())

    def is_linear(self) -> bool:
        """Whether the gate is open."""
        return bool(self.straight > OPEN_ABOVE)

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The outputs, rectified or not, and lifted."""
        out: Tensor = self.inner(features)
        mask = (self.straight > OPEN_ABOVE).to(self.straight) + (
            self.straight - self.straight.detach()
        )
        bent = F.relu(out) + mask.to(out.dtype) * out.clamp_max(0.0)
        # One more than needed, because a rectifier has no gradient at zero.
        self.lift = 1 + F.relu(-bent.detach().amin())
        return bent + self.lift


class Lowered(nn.Module):
    """A layer that reads the outputs of a gated rectifier."""

    def __init__(self, inner: nn.Module, *, of: GatedRectifier) -> None:
        super().__init__()
        self.inner = inner
        self._of = (of,)  # in a tuple, so that it does not become a submodule

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The output for the inputs before the lift."""
        out: Tensor = self.inner(features - self._of[0].lift)
        return out


@torch.no_grad()
def straighten_(layer: nn.Linear, reader: nn.Linear) -> None:
    """Makes two layers with a rectifier between them compute what they would without it, in place.

    Every unit becomes two: x = relu(x) - relu(-x). Units without readers are dropped. If more units
    remain than the reader has, the product of the two layers replaces them.
    """
    bias: Tensor = layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
    live = (reader.weight != 0).any(0) & ((layer.weight != 0).any(1) | (bias != 0))
    rows: Tensor = layer.weight[live]
    bias, out = bias[live], reader.weight[:, live]
    reads = (out != 0).any(1)
    if len(rows) > int(reads.sum()):
        rows, bias, out = (
            out[reads] @ rows,
            out[reads] @ bias,
            torch.eye(len(out)).to(out)[:, reads],
        )
    both = 2 * len(rows)
    if both > layer.out_features:
        raise ValueError(
            f"a linear layer takes {both} rectified units, and there are {layer.out_features}"
        )
    layer.weight.zero_()[:both] = torch.cat((rows, -rows))
    reader.weight.zero_()[:, :both] = torch.cat((out, -out), dim=1)
    if layer.bias is not None:
        layer.bias.zero_()[:both] = torch.cat((bias, -bias))


@torch.no_grad()
def is_rectified(model: nn.Module, layer: nn.Linear, reader: nn.Module, example: Tensor) -> bool:
    """Whether only a rectifier lies between a layer and its reader; runs the model in eval."""
    probe = torch.linspace(-1, 1, layer.out_features).to(layer.weight).expand(len(example), -1)
    seen: list[Tensor] = []
    put = layer.register_forward_hook(lambda *_: probe.clone())
    take = reader.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    was_training = model.training
    try:
        model.eval()(example)
    finally:
        model.train(was_training)
        put.remove()
        take.remove()
    return torch.equal(seen[0], F.relu(probe))
