"""Architecture learning: Srinivas and Babu, Learning Neural Network Architectures using Backpropagation, 2015."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsegate.graph import linear_readers, remove_dead_paths
from sparsegate.schedule import cosine, ramp
from sparsegate_lab.layers import (
    GatedRectifier,
    GatedUnits,
    Lowered,
    is_rectified,
    layers_of,
    linears,
    straighten_,
    unwrap_,
    wrap_,
)
from sparsegate_lab.method import Judge, Method


@dataclass(frozen=True)
class Architecture(Method):
    """A gate for every unit, learned with the weights: how wide each layer is, is learned too."""

    # Differs from Srinivas and Babu 2015: 1. prices are means over all units, or over the weights that hang on them;
    # theirs are sums with a factor for each layer. 2. only fully connected layers have a gate for the
    # depth, and one that became linear is written with two rectified units for each, so that the network stays the
    # one that was asked for. 3. the gates have an optimiser of their own, a ramp of the price, and stand still at
    # the end.

    count: float = 0.5
    """Price of the units: what the network at full width would add to the loss, in nats."""

    bimodal: float = 0.0
    """Price of gates that are undecided: w (1 - w), at most a quarter of this."""

    per: Literal["unit", "weight"] = "unit"
    """What is priced: every unit alike, or every weight that a unit has in its layer and in the one after it."""

    depth: float = 0.0
    """Price of the depth: what all rectifiers of fully connected layers would add to the loss, in nats; 0: no gates."""

    start: float = 0.9
    """The gates' first value; a unit speaks above one half. Gates of rectifiers start at one minus it."""

    gate_lr: float = 0.1
    """The gates' first learning rate (SGD with momentum); a cosine takes it to zero."""

    gate_momentum: float = 0.9
    """The gates' momentum."""

    ramp: float = 0.5
    """Fraction of training over which the price rises from zero to its full height."""

    freeze: float = 0.8
    """Fraction of training after which the gates stand still and only the weights move."""

    def __post_init__(self) -> None:
        if self.per not in ("unit", "weight"):
            raise ValueError(f"per is unit or weight, got {self.per!r}")
        if not (self.count >= 0 and self.bimodal >= 0 and self.depth >= 0):
            raise ValueError(
                f"prices are zero or more, got count={self.count}, bimodal={self.bimodal}, depth={self.depth}"
            )
        if not 0 <= self.start <= 1:
            raise ValueError(f"start is a gate, a number in [0, 1], got {self.start}")
        if not (self.gate_lr > 0 and 0 <= self.gate_momentum < 1):
            raise ValueError(
                f"gate_lr is above zero and gate_momentum in [0, 1), got {self.gate_lr} and {self.gate_momentum}"
            )
        if not (0 <= self.ramp <= 1 and 0 < self.freeze <= 1):
            raise ValueError(
                f"ramp is in [0, 1] and freeze in (0, 1], got ramp={self.ramp}, freeze={self.freeze}"
            )

    def prepare(self, model: nn.Module) -> nn.Module:
        """Puts gates on the units of every Linear and Conv but the last, whose units are the answer."""
        layers = list(layers_of(model).items())
        if len(layers) < 2:
            raise ValueError(
                "architecture needs a layer before the last one: the last one's units are the answer"
            )
        readers = _readers(model) if self.depth else {}
        wrap_(model, {name: GatedUnits(layer, start=self.start) for name, layer in layers[:-1]})
        for name, reader in readers.items():
            gated = GatedRectifier(model.get_submodule(name), start=1 - self.start)
            wrap_(model, {name: gated, reader: Lowered(model.get_submodule(reader), of=gated)})
        return model

    def weights(self, model: nn.Module) -> list[nn.Parameter]:
        """Everything but the gates."""
        ours = {id(gate) for gate in _gates(model)}
        return [parameter for parameter in model.parameters() if id(parameter) not in ours]

    def optimizer(self, model: nn.Module) -> Optimizer:
        """SGD on the gates."""
        return torch.optim.SGD(_gates(model), lr=self.gate_lr, momentum=self.gate_momentum)

    def before_step(self, model: nn.Module, optimizer: Optimizer | None, progress: float) -> None:
        """Sets the gates' learning rate for this moment."""
        assert optimizer is not None
        for group in optimizer.param_groups:
            group["lr"] = self.gate_lr * cosine(progress, until=self.freeze)

    def loss_term(self, model: nn.Module, progress: float) -> Tensor:
        """The price of the units that speak, of rectifiers that bend, and of all that are undecided."""
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
        """Says so if a layer has fallen silent."""
        for name, module in model.named_modules():
            if isinstance(module, GatedUnits) and not bool(module.open().any()):
                warnings.warn(
                    f"all units of {name} are silent; lower count or gate_lr", stacklevel=2
                )

    def finish(self, model: nn.Module) -> nn.Module:
        """An ordinary model without what silent units read and what reads them; `sg.shrink` makes it narrow."""
        linear = [
            name
            for name, each in model.named_modules()
            if isinstance(each, GatedRectifier) and each.is_linear()
        ]
        for kind in (GatedRectifier, Lowered):
            unwrap_(model, kind, lambda wrapper: wrapper.inner)  # type: ignore[arg-type,return-value]
        unwrap_(model, GatedUnits, lambda gated: gated.without_gates())  # type: ignore[operator]
        for name in reversed(
            linear
        ):  # the last first: one before it then has fewer readers to serve
            straighten_(model.get_submodule(name), linear_readers(model, name)[0])  # type: ignore[arg-type]
        shape = getattr(model, "image_shape", None)
        if shape is not None:  # who reads a silent unit is seen by running the model
            example = next(model.parameters()).new_zeros(1, *shape)
            remove_dead_paths(model, example)
        return model

    def _shares(self, model: nn.Module) -> list[float]:
        """What a gated layer at full width costs, as a fraction of the whole price."""
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

    Twice the reader's units must fit into a layer, since a linear unit is written as two rectified ones.
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
            "a gate for the depth needs a fully connected layer that is rectified and then read by one fully connected "
            "layer of half its size at most, and the model has none; set depth to 0"
        )
    return found
