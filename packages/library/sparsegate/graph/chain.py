"""Chains: how the units of one layer reach the layers that read them, found through torch.fx.

A unit is an output feature of a Linear or an output channel of a Conv. On its way it may be normalised, activated,
pooled and flattened, as long as no other unit is mixed in.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from jaxtyping import config
from torch import Tensor, fx, nn

from .step import (
    NORMS,
    MixedError,
    Norm,
    Step,
    is_hooked,
    module_of,
    operation,
    reads_shape,
    to_step,
)

Layer: TypeAlias = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
Example: TypeAlias = Tensor | tuple[Tensor, ...]

# Each with the number of dimensions that stand after the units.
LAYERS: dict[type[nn.Module], int] = {nn.Linear: 0, nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


@dataclass(frozen=True, eq=False)
class Reader:
    """A layer that reads the units, and the steps to it."""

    layer: Layer
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """A layer and all who read its units."""

    layer: Layer
    shape: tuple[int, ...]
    """The shape of what the layer computes from the example."""
    axis: int
    """Where the units stand in it."""
    readers: tuple[Reader, ...]

    @property
    def norms(self) -> list[Norm]:
        """The norms on the way, each once."""
        steps = [step for reader in self.readers for step in reader.steps]
        return list(dict.fromkeys(step.norm for step in steps if step.norm is not None))


def find_chains(model: nn.Module, example: Example) -> tuple[list[Chain], dict[str, str]]:
    """The chains of a model in eval, from its inputs to its outputs, and the other layers, each with what it meets.

    >>> from sparsegate_lab.models import LeNet5
    >>> chains, left = find_chains(LeNet5().eval(), torch.zeros(1, 1, 28, 28))
    >>> [len(chain.layer.weight) for chain in chains], left
    ([20, 50, 500], {'fc2': 'output'})
    """
    graph = trace(model, example)
    own = _own(model, graph)
    chains: list[Chain] = []
    left: dict[str, str] = {}
    for node in graph.nodes:
        if operation(node) in LAYERS:
            try:
                chains.append(_chain(node, own))
            except MixedError as error:
                left[str(node.target)] = str(error)
    return chains, left


def inputs_of(example: Example) -> tuple[Tensor, ...]:
    """Fresh inputs, which a model may change in place."""
    return tuple(
        tensor.clone() for tensor in (example if isinstance(example, tuple) else (example,))
    )


class _Shapes(fx.Interpreter):
    """Runs a graph and notes the shapes and types of its tensors."""

    def run_node(self, n: fx.Node) -> Any:
        """The node's value."""
        value = super().run_node(n)
        if isinstance(value, Tensor):
            n.meta["shape"], n.meta["dtype"] = tuple(value.shape), value.dtype
        return value


def trace(model: nn.Module, example: Example) -> fx.Graph:
    """The operations of a model's forward; in their `meta`, `shape` and `dtype` of what they make of the example."""
    try:
        with unchecked():
            traced = fx.symbolic_trace(model)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} cannot be traced by torch.fx ({_first_line(error)}); "
            "its forward must not depend on the values or the type of its input"
        ) from error
    try:
        with torch.random.fork_rng(devices=()):
            _Shapes(traced).run(*inputs_of(example))
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} does not run on the example ({_first_line(error)}); pass a batch of its inputs, "
            "a tuple if it takes several"
        ) from error
    return traced.graph


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Lets models through whose signatures jaxtyping checks: torch.fx traces with stand-ins, which are no tensors."""
    disabled = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", disabled)


def _own(model: nn.Module, graph: fx.Graph) -> dict[fx.Node, nn.Module]:
    """The layers and norms that are called once, have no hooks, and whose tensors nobody else has."""
    nodes = [node for node in graph.nodes if node.op == "call_module"]
    calls = Counter(node.target for node in nodes)
    owners = _owners(model, graph)
    for node in nodes:
        _check_has_weight(str(node.target), module_of(node))
    once = [node for node in nodes if calls[node.target] == 1 and not is_hooked(node)]
    return {node: module_of(node) for node in once if _is_plain(module_of(node), owners)}


def _owners(model: nn.Module, graph: fx.Graph) -> Counter[int]:
    """How many names every piece of memory has, in the model and in its forward."""
    tensors: list[Tensor] = [tensor for _, tensor in model.named_parameters(remove_duplicate=False)]
    tensors += [tensor for _, tensor in model.named_buffers(remove_duplicate=False)]
    read = [
        attrgetter(str(node.target))(graph.owning_module)
        for node in graph.nodes
        if node.op == "get_attr"
    ]
    tensors += [value for value in read if isinstance(value, Tensor)]
    return Counter(_memory(tensor) for tensor in tensors)


def _memory(tensor: Tensor) -> int:
    """Where a tensor lies; all empty ones at 0."""
    return tensor.untyped_storage().data_ptr()


def _check_has_weight(name: str, module: nn.Module) -> None:
    if isinstance(module, tuple(LAYERS)) and "weight" not in module._parameters:
        raise ValueError(
            f"{name}.weight is computed from other tensors; make it an ordinary one first: sparsegate.finish(model) "
            "for gates, torch.nn.utils.prune.remove, remove_parametrizations"
        )


def _is_plain(module: nn.Module, owners: Counter[int]) -> bool:
    if type(module) not in (*LAYERS, *NORMS):
        return False
    if isinstance(module, NORMS) and module.running_mean is None:
        return False
    tensors = [*module.parameters(), *module.buffers()]
    return all(owners[_memory(tensor)] == 1 for tensor in tensors)


def _chain(node: fx.Node, own: dict[fx.Node, nn.Module]) -> Chain:
    if node not in own:
        raise MixedError("shared, hooked or empty")
    layer = own[node]
    axis = _unit_axis(node, layer)
    readers = _readers(node, axis, (), own)
    if len(readers) > 1 and any(step.in_place for reader in readers for step in reader.steps):
        raise MixedError("an in-place operation on units that others read, too")
    return Chain(layer, node.meta["shape"], axis, tuple(readers))  # type: ignore[arg-type]


def _unit_axis(node: fx.Node, layer: nn.Module) -> int:
    """Where the units stand in a tensor that the layer makes or reads."""
    return len(node.meta["shape"]) - 1 - LAYERS[type(layer)]


def _readers(
    node: fx.Node, axis: int, steps: tuple[Step, ...], own: dict[fx.Node, nn.Module]
) -> list[Reader]:
    readers: list[Reader] = []
    for user in node.users:
        if reads_shape(user):
            continue
        module = own.get(user)
        if module is None or type(module) not in LAYERS:
            step = to_step(user, node, axis, module)
            readers += _readers(user, step.axis, (*steps, step), own)
        elif axis == _unit_axis(node, module):
            readers.append(Reader(module, steps))  # type: ignore[arg-type]
        else:
            raise MixedError(user.name)
    if not readers:
        raise MixedError("nothing")
    return readers
