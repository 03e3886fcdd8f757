"""Holds the networks of all members as one, and everything that a checkpoint contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.nn import functional as F

from sparsegate.gates import gates
from sparsegate.graph import unchecked
from sparsegate_lab.data import Dataset
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.train import empty_network, fold, fresh_network

from .layers import ManyConv2d, ManyLinear, stacked_layers_
from .member import Member
from .unfolded import fits_unfolding
from .update import Stacked, can_fuse

# What a checkpoint holds of every parameter.
MOVED = ("weight", "speed", "gate", "gate_speed", "average", "square")


class Stack(nn.Module):
    """Weights, gates and their optimizer state, each with a leading axis over members."""

    factor: Tensor
    """The factor on each member's price; one unless it is steered."""

    def __init__(self, members: Sequence[Member], data: Dataset, device: torch.device) -> None:
        super().__init__()
        self.members, self.num_classes = tuple(members), data.num_classes
        states, starts = zip(*(_begin(member, data) for member in members), strict=True)
        self.skeleton = empty_network(members[0].run, data.num_classes)
        self.num_weights = sum(
            each.numel() for each in self.skeleton.parameters() if each.ndim >= 2
        )
        self._layers = stacked_layers_(self.skeleton)
        if device.type == "cuda" and can_fuse() and members[0].run.precision == "fp32":
            self.skeleton = fuse_pools(self.skeleton)
        self.params: dict[str, Stacked] = {}
        for name in states[0]:
            weight = torch.stack([state[name] for state in states]).to(device)
            gate = (
                torch.stack([start[name] for start in starts]).to(device)
                if name in starts[0]
                else None
            )
            self.params[name] = self._stacked(weight, gate)
            self._register(name, self.params[name])
        self.active = self.params
        self.register_buffer("factor", torch.ones(len(members), dtype=torch.float64))
        self._price()

    @property
    def gated(self) -> dict[str, Stacked]:
        """The parameters that have gates."""
        return {name: each for name, each in self.params.items() if each.gate is not None}

    def leaves(self) -> dict[str, Tensor]:
        """The masked weights of a training step, which require gradients."""
        return {
            name: each.effective(training=True).detach().requires_grad_()
            for name, each in self.active.items()
        }

    def run(
        self, images: Float[Tensor, "batch channel height width"], weights: Mapping[str, Tensor]
    ) -> Float[Tensor, "batch classes"]:
        """The logits of every member for its part of the batch, with these weights."""
        for path, layer in self._layers.items():
            layer.weight, layer.bias = weights[f"{path}.weight"], weights.get(f"{path}.bias")  # type: ignore[assignment]
        logits: Tensor = self.skeleton(images)
        return logits

    @torch.no_grad()
    def finished(self) -> dict[str, Float[Tensor, "member *shape"]]:
        """Returns the weights of all members, or their averages; removed ones are exactly zero."""
        made = {}
        for name, each in self.params.items():
            whole = each if each.average is None else Stacked(each.average, each.speed, each.gate)
            made[name] = whole.effective(training=False)
        return made

    def draw_noise(self, step: int) -> None:
        """Draws the noise of sampled masks; each member gets what it would get alone."""
        sampled = [each.noise for each in self.params.values() if each.noise is not None]
        for index, member in enumerate(self.members if sampled else ()):
            source = torch.Generator(sampled[0].device).manual_seed(
                fold(member.run.seed, "step", step, 0)
            )
            for noise in sampled:
                # In the memory order of the gates in `train`, where convolutions are channels-last.
                noise[index].copy_(_channels_last(noise[index]).uniform_(generator=source))

    def moving(self) -> list[Tensor]:
        """Everything that a step changes."""
        return [
            value
            for each in self.active.values()
            for part in MOVED
            if (value := getattr(each, part)) is not None
        ]

    def _stacked(self, weight: Tensor, gate: Tensor | None) -> Stacked:
        method = self.members[0].run.method
        averaged = any(member.average for member in self.members)
        return Stacked(
            weight,
            torch.zeros_like(weight),
            gate,
            None if gate is None else torch.zeros_like(gate),
            torch.zeros_like(weight) if gate is not None and method.draw == "sample" else None,
            weight.clone() if averaged else None,
            None if gate is None else gate.new_zeros(len(self.members)),
            None
            if gate is None or not any(_bimodal(member) for member in self.members)
            else gate.new_zeros(len(gate)),
            torch.zeros_like(weight) if any(member.late.adapt for member in self.members) else None,
        )

    def _register(self, name: str, each: Stacked) -> None:
        for part in MOVED:
            if (value := getattr(each, part)) is not None:
                self.register_buffer(f"{part}/{name.replace('.', '/')}", value)

    def _price(self) -> None:
        """Writes the slopes of each member's price."""
        gated = list(self.gated.values())
        sizes = [each.weight[0].numel() for each in gated]
        for index, member in enumerate(self.members if gated else ()):
            for param, slope in zip(gated, member.run.method.penalty.slopes(sizes), strict=True):
                assert param.base is not None
                param.base[index] = slope.base
                if param.tilt is not None:
                    param.tilt[index] = slope.tilt


def _begin(member: Member, data: Dataset) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns the first weights and gates of a member, by the name of the weight."""
    with torch.random.fork_rng(devices=()):
        model, _ = fresh_network(member.run, data)
        model = member.run.method.prepare(model)
    starts = {name: each.gate.detach().clone() for name, each in gates(model).items()}
    found = {
        name.replace("parametrizations.", "").removesuffix(".original"): each
        for name, each in model.named_parameters()
    }
    wanted = empty_network(member.run, data.num_classes).state_dict()
    return {name: found[name].detach().clone() for name in wanted}, starts


def _bimodal(member: Member) -> float:
    method = member.run.method
    return method.penalty.bimodal if isinstance(method, LearnedGates) else 0.0


def _channels_last(value: Tensor) -> Tensor:
    return torch.empty_like(
        value, memory_format=torch.channels_last if value.ndim == 4 else torch.contiguous_format
    )


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, ManyConv2d | ManyLinear) or super().is_leaf_module(
            m, module_qualified_name
        )


def fuse_pools(model: nn.Module) -> nn.Module:
    """Returns the model with `relu(max_pool2d(conv(x), 2))` in one step; layers are shared.

    A model that cannot be traced, or has no such place, is returned unchanged.
    """
    try:
        with unchecked():
            graph = _Tracer().trace(model)
    except (fx.proxy.TraceError, TypeError):
        return model
    found = [node for node in graph.nodes if _is_pooled(node, model)]
    for node in found:
        pool = next(iter(node.users))
        relu = next(iter(pool.users))
        relu.replace_all_uses_with(node)
        graph.erase_node(relu)
        graph.erase_node(pool)
        model.get_submodule(str(node.target)).pooled = True  # type: ignore[assignment]
    return fx.GraphModule(model, graph) if found else model


def _is_pooled(node: fx.Node, model: nn.Module) -> bool:
    if node.op != "call_module" or not isinstance(
        layer := model.get_submodule(str(node.target)), ManyConv2d
    ):
        return False
    pools, calls = list(node.users), [each for each in model.modules() if each is layer]
    if len(pools) != 1 or len(calls) != 1 or not fits_unfolding(*layer.options):
        return False
    relus = list(pools[0].users)
    return (
        _halves(pools[0])
        and len(relus) == 1
        and relus[0].target is F.relu
        and not relus[0].kwargs.get("inplace")
    )


def _halves(node: fx.Node) -> bool:
    """Whether a node is exactly `max_pool2d(x, 2)`."""
    plain = {
        "stride": None,
        "padding": 0,
        "dilation": 1,
        "ceil_mode": False,
        "return_indices": False,
    }
    said = {**dict(zip(("kernel_size", *plain), node.args[1:], strict=False)), **node.kwargs}
    size = said.pop("kernel_size", None)
    return (
        node.target is F.max_pool2d
        and bool(size == 2)
        and all(plain.get(name) == said[name] for name in said)
    )
