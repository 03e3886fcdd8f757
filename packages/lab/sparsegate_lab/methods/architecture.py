"""Srinivas and Babu, Learning Neural Network Architectures using Backpropagation, 2015."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from sparsegate.gates import OPEN_ABOVE
from sparsegate.graph import linear_readers, remove_dead_paths
from sparsegate.schedule import cosine, ramp
from sparsegate_lab.layers import Layer, layers_of, linears, unwrap_, wrap_
from sparsegate_lab.method import Judge, Method, Training, scale_lr_


@dataclass(frozen=True)
class Architecture(Method):
    """Learns the width of every layer: a gate on every unit, trained with the weights."""

    # Differs from Srinivas and Babu 2015: 1. penalties are means over all units, or over their
    # weights; theirs are sums with a factor for each layer. 2. only fully connected layers have a
    # gate for the depth, and one that became linear is written with two rectified units for each
    # unit, so that the architecture stays the same. 3. the gates have a separate optimizer, a ramp
    # of the penalty, and are frozen at the end.

    count: float = 0.5
    """Penalty on the units: what the network at full width would add to the loss, in nats."""

    bimodal: float = 0.0
    """Penalty on undecided gates: this times w (1 - w)."""

    per: Literal["unit", "weight"] = "unit"
    """What is counted: every unit equally, or the weights that a unit has in two layers."""

    depth: float = 0.0
    """Penalty on the rectifiers of fully connected layers, in nats; 0: they have no gates."""

    start: float = 0.9
    """Initial value of the gates; a unit is active above 0.5. Rectifiers start at 1 minus it."""

    gate_lr: float = 0.1
    """Initial learning rate of the gates (SGD with momentum); it follows a cosine to zero."""

    gate_momentum: float = 0.9
    """Momentum of the gates."""

    ramp: float = 0.5
    """Fraction of training over which the penalty rises from zero to its full weight."""

    freeze: float = 0.8
    """Fraction of training before the gates are frozen and only the weights train on."""

    def __post_init__(self) -> None:
        if self.per not in ("unit", "weight"):
            raise ValueError(f"per is unit or weight, got {self.per!r}")
        if not (self.count >= 0 and self.bimodal >= 0 and self.depth >= 0):
            raise ValueError(
                "count, bimodal and depth are zero or more, "
                f"got count={self.count}, bimodal={self.bimodal}, depth={self.depth}"
            )
        if not 0 <= self.start <= 1:
            raise ValueError(f"start is a gate, a number in [0, 1], got {self.start}")
        if not (self.gate_lr > 0 and 0 <= self.gate_momentum < 1):
            raise ValueError(
                "gate_lr is above zero and gate_momentum in [0, 1), "
                f"got {self.gate_lr} and {self.gate_momentum}"
            )
        if not (0 <= self.ramp <= 1 and 0 < self.freeze <= 1):
            raise ValueError(
                "ramp is in [0, 1] and freeze in (0, 1], "
                f"got ramp={self.ramp}, freeze={self.freeze}"
            )

    def prepare(self, model: nn.Module, progress: float = 0.0) -> nn.Module:
        """Adds gates to the units of every Linear and Conv layer except the last one."""
        layers = list(layers_of(model).items())
        if len(layers) < 2:
            raise ValueError(
                "architecture needs at least two layers, because the last one gets no gates; got "
                f"{len(layers)}"
            )
        readers = _readers(model) if self.depth else {}
        wrap_(model, {name: GatedUnits(layer, start=self.start) for name, layer in layers[:-1]})
        for name, reader in readers.items():
            gated = GatedRectifier(model.get_submodule(name), start=1 - self.start)
            wrap_(model, {name: gated, reader: Lowered(model.get_submodule(reader), of=gated)})
        return model

    def optimizers(self, model: nn.Module, training: Training) -> list[Optimizer]:
        """The run's SGD on the weights, and another one on the gates."""
        gates = _gates(model)
        ids = {id(gate) for gate in gates}
        weights = [parameter for parameter in model.parameters() if id(parameter) not in ids]
        own = torch.optim.SGD(gates, lr=self.gate_lr, momentum=self.gate_momentum)
        return [training.sgd(weights), own]

    def before_step(
        self, model: nn.Module, optimizers: Sequence[Optimizer], progress: float
    ) -> None:
        """Lets both learning rates follow a cosine; that of the gates ends at `freeze`."""
        weights, gates = optimizers
        scale_lr_(weights, cosine(progress))
        for group in gates.param_groups:
            group["lr"] = self.gate_lr * cosine(progress, until=self.freeze)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor:
        """The penalty on active units, on rectifiers, and on undecided gates."""
        prices = [
            share * (self.count * each.gate + self.bimodal * each.gate * (1 - each.gate)).mean()
            for each, share in zip(_gated(model), self._shares(model), strict=True)
        ]
        bends = [1 - each.straight.mean() for each in _rectifiers(model)]
        prices += [
            (self.depth * bend + self.bimodal * bend * (1 - bend)) / len(bends) for bend in bends
        ]
        return ramp(progress, over=self.ramp) * torch.stack(prices).sum()

    @torch.no_grad()
    def after_step(self, model: nn.Module, progress: float) -> None:
        """Clips the gates to [0, 1]."""
        for gate in _gates(model):
            gate.clamp_(0.0, 1.0)

    def after_epoch(self, model: nn.Module, judge: Judge, progress: float) -> None:
        """Warns if no unit of a layer is active."""
        for name, module in model.named_modules():
            if isinstance(module, GatedUnits) and not bool(module.open().any()):
                warnings.warn(
                    f"all units of {name} are inactive; lower count or gate_lr", stacklevel=2
                )

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model with zeros for inactive units; `sg.shrink` makes it narrow."""
        linear = [
            name
            for name, each in model.named_modules()
            if isinstance(each, GatedRectifier) and each.is_linear()
        ]
        for kind in (GatedRectifier, Lowered):
            unwrap_(model, kind, lambda wrapper: wrapper.inner)  # type: ignore[arg-type,return-value]
        unwrap_(model, GatedUnits, lambda gated: gated.without_gates())  # type: ignore[operator]
        for name in reversed(linear):  # last first: the layer before then has fewer readers
            straighten_(model.get_submodule(name), linear_readers(model, name)[0])  # type: ignore[arg-type]
        shape = getattr(model, "image_shape", None)
        if shape is not None:  # running the model shows which layers read an inactive unit
            example = next(model.parameters()).new_zeros(1, *shape)
            remove_dead_paths(model, example)
        return model

    def _shares(self, model: nn.Module) -> list[float]:
        """The share of the penalty of each gated layer at full width."""
        if self.per == "unit":
            widths = [len(each.gate) for each in _gated(model)]
            return [width / sum(widths) for width in widths]
        sizes = [layer.weight.numel() for layer in layers_of(model).values()]
        return [(own + following) / sum(sizes) for own, following in pairwise(sizes)]


def _gated(model: nn.Module) -> list[GatedUnits]:
    return [module for module in model.modules() if isinstance(module, GatedUnits)]


def _rectifiers(model: nn.Module) -> list[GatedRectifier]:
    return [module for module in model.modules() if isinstance(module, GatedRectifier)]


def _gates(model: nn.Module) -> list[nn.Parameter]:
    return [each.gate for each in _gated(model)] + [each.straight for each in _rectifiers(model)]


def _readers(model: nn.Module) -> dict[str, str]:
    """The fully connected layers that may become linear, each with the only layer that reads it.

    A linear unit is written as two rectified ones, so the layer needs twice the reader's units.
    """
    names = {module: name for name, module in model.named_modules()}
    found = {}
    for name, layer in list(linears(model, ("*",)).items())[:-1]:
        reader, *more = linear_readers(model, name)
        example = layer.weight.new_zeros(1, *model.image_shape)  # type: ignore[misc]
        fits = not more and 2 * reader.out_features <= layer.out_features
        if fits and is_rectified(model, layer, reader, example):
            found[name] = names[reader]
    if not found:
        raise ValueError(
            "a gate for the depth needs a rectified fully connected layer before one of at most "
            "half its size, and the model has none; set depth to 0"
        )
    return found


class GatedUnits(nn.Module):
    """A layer with a gate on every unit; a unit is active if its gate is above 0.5.

    The gradient passes straight through the threshold, so a closed gate can open again. An inactive
    unit is zero before the activation function, with its bias.
    """

    def __init__(self, layer: Layer, *, start: float) -> None:
        super().__init__()
        self.layer = layer
        self.gate = nn.Parameter(torch.full((len(layer.weight),), start))

    def open(self) -> Bool[Tensor, " unit"]:
        """Which units are active."""
        return self.gate > OPEN_ABOVE

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The layer's output, zero for inactive units."""
        mask = self.open().to(self.gate) + (self.gate - self.gate.detach())
        out: Tensor = self.layer(features)
        axis = (
            out.ndim - 1
            if isinstance(self.layer, nn.Linear)
            else out.ndim - self.layer.weight.ndim + 1
        )
        return out * mask.to(out.dtype).view(
            [-1 if dimension == axis else 1 for dimension in range(out.ndim)]
        )

    @torch.no_grad()
    def without_gates(self) -> Layer:
        """The plain layer, with weights and biases of inactive units exactly zero."""
        closed = ~self.open()
        self.layer.weight[closed] = 0.0
        if self.layer.bias is not None:
            self.layer.bias[closed] = 0.0
        return self.layer


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
