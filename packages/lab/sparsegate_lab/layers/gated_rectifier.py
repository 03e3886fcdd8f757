"""A gate for the rectifier behind a fully connected layer: where it is open, the layer is linear."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.gates import OPEN_ABOVE


class GatedRectifier(nn.Module):
    """A layer with a tri-state rectifier of its own: `x` above zero, below it `d x` with the gate d, drawn at one half.

    What comes out is lifted above zero, where the model's own rectifier changes nothing; `Lowered` takes it down again
    before the layer that reads it. So the model's forward can stay as it is.
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
        """The layer's outputs, rectified or not, lifted."""
        out: Tensor = self.inner(features)
        mask = (self.straight > OPEN_ABOVE).to(self.straight) + (
            self.straight - self.straight.detach()
        )
        bent = F.relu(out) + mask.to(out.dtype) * out.clamp_max(0.0)
        # One above what is needed: at zero a rectifier has no gradient.
        self.lift = 1 + F.relu(-bent.detach().amin())
        return bent + self.lift


class Lowered(nn.Module):
    """A layer that reads what a gated rectifier has lifted."""

    def __init__(self, inner: nn.Module, *, of: GatedRectifier) -> None:
        super().__init__()
        self.inner = inner
        self._of = (of,)  # in a tuple, so that it is not a part of this module

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output for what there was before the lift."""
        out: Tensor = self.inner(features - self._of[0].lift)
        return out


@torch.no_grad()
def straighten_(layer: nn.Linear, reader: nn.Linear) -> None:
    """Makes two layers with a rectifier between compute what they would without it, in place.

    Every unit becomes two, of which one is rectified away: x = relu(x) - relu(-x). Units that nobody reads are dropped,
    and if there are more than the reader has that read any, the product of the two layers takes their place.
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
    """Whether a layer's outputs reach its reader through a rectifier and nothing else, found by trying it in eval."""
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
