"""Srinivas and Babu, Learning Neural Network Architectures using Backpropagation, 2015."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
                f"ramp is in [0, 1] and freeze in (0, 1], got ramp={self.ramp}, freeze={self.freeze}"
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
        """An ordinary model in which all weights of inactive units are zero; `sg.shrink` narrows it."""
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
            "a gate for the depth needs a rectified fully connected layer that is read by one fully "
            "connected layer of at most half its size, and the model has none; set depth to 0"
        )
    return found
