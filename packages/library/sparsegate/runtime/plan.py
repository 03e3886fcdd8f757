"""Puts sparse parts into a traced model's forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from sparsegate.export import HardWired, hard_wire
from sparsegate.fast_call import hooks_of

from .block import joined
from .dense_part import DENSE_KERNELS, dense_part
from .part import ChainPart, Direct, sparse_part
from .sparsable import RESHAPES, Unit, calls, flattens, follows, pieces

VIEW_METHODS = {"view": "reshape", "view_as": "reshape_as"}
"""What does the same to images that cannot be viewed."""
VIEWS: tuple[Any, ...] = (*RESHAPES, "view_as", "reshape_as", "unflatten", torch.unflatten)


def planned(
    model: nn.Module,
    graph: fx.GraphModule,
    kernels: Mapping[str, str],
    *,
    channels_last: bool = False,
) -> Callable[[Tensor], Tensor]:
    """The model's forward pass, with consecutive sparse layers run by one part.

    With `channels_last`, the convolutions that stay dense run in that layout, which oneDNN often does faster.
    """
    if "hardwired" in kernels.values():
        return hard_wire(model, example=torch.zeros(_input_shape(graph)))
    found = {piece.name: piece for piece in pieces(graph)}
    missing = [name for name in kernels if name not in found]
    if missing:
        raise ValueError(f"the model has no layers {', '.join(missing)}; it has {', '.join(found)}")
    groups = _groups(graph, {name: kernel for name, kernel in kernels.items() if kernel != "dense"})
    if not groups and not channels_last:
        return model.forward
    copied = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    _lay_out_(copied, kernels, channels_last)
    nodes = {node.name: node for node in copied.graph.nodes}
    for number, group in enumerate(groups):
        inside = [piece for unit in group for piece in unit.pieces]
        names, whole = [kernels[piece.name] for piece in inside], _input_of_all(group, graph)
        part = (
            dense_part(inside, names)
            if names[0] in DENSE_KERNELS
            else sparse_part(group, names[0], whole)
        )
        fits = names[0] == "chain" or whole == group[0].shapes["in"]
        if whole and fits and names[0] not in DENSE_KERNELS:
            return part
        copied.add_module(f"sparse_{number}", part)
        first, last = nodes[group[0].nodes[0].name], nodes[group[-1].nodes[-1].name]
        with copied.graph.inserting_before(
            first
        ):  # where its input has not been changed in place yet
            called = copied.graph.call_module(f"sparse_{number}", first.args[:1])
        last.replace_all_uses_with(called)
        for node in reversed(
            [node for unit in group for node in unit.nodes]
        ):  # and no other: it may act in place
            copied.graph.erase_node(nodes[node.name])
    copied.recompile()
    return copied


def _lay_out_(graph: fx.GraphModule, kernels: Mapping[str, str], channels_last: bool) -> None:
    """Gives every convolution a copy of its weights with the channels last, if wanted; the model keeps its own."""
    if channels_last or not {*kernels.values()}.isdisjoint(DENSE_KERNELS):
        _allow_any_layout_(graph)
    for name, module in list(graph.named_modules()):
        if channels_last and isinstance(module, nn.Conv2d):
            graph.set_submodule(name, copy.deepcopy(module).to(memory_format=torch.channels_last))  # type: ignore[call-overload]


def _allow_any_layout_(graph: fx.GraphModule) -> None:
    """Views may copy, as images with their channels last cannot always be viewed; the output is laid out as usual."""
    for node in list(graph.graph.nodes):
        if calls(node, graph, (nn.Flatten, nn.Unflatten), VIEWS):
            _put_in_order_(node.all_input_nodes[0], graph.graph)
        if (
            node.target in VIEW_METHODS
            and node.op == "call_method"
            and torch.dtype not in map(type, _given(node))
        ):
            node.target = VIEW_METHODS[node.target]
            node.kwargs = {
                "shape" if name == "size" else name: each for name, each in node.kwargs.items()
            }
    output = graph.graph.output_node()
    with graph.graph.inserting_before(output):
        output.args = (graph.graph.call_method("contiguous", output.args),)


def _given(node: fx.Node) -> tuple[Any, ...]:
    return (*node.args, *node.kwargs.values())


def _put_in_order_(node: fx.Node, graph: fx.Graph) -> None:
    """Lays out what a node gives as usual where others read it, too: they see what is done in place to a view of it."""
    if sum("shape" in user.meta for user in node.users) < 2:  # the others ask for its size
        return
    with graph.inserting_after(node):
        ordered = graph.call_method("contiguous", (node,))
    node.replace_all_uses_with(ordered, delete_user_cb=lambda user: user is not ordered)


def _input_shape(graph: fx.GraphModule) -> tuple[int, ...]:
    shape: tuple[int, ...] = next(
        node for node in graph.graph.nodes if node.op == "placeholder"
    ).meta["shape"]
    return shape


def _groups(graph: fx.GraphModule, kernels: Mapping[str, str]) -> list[list[Unit]]:
    """What runs by other kernels than torch's, as parts: whatever follows each other, by kernels that are alike."""
    chosen = [piece for piece in pieces(graph) if piece.name in kernels]
    chained = joined([piece for piece in chosen if kernels[piece.name] == "chain"], graph)
    units: list[Unit] = [*chained, *(piece for piece in chosen if kernels[piece.name] != "chain")]
    order = {node: place for place, node in enumerate(graph.graph.nodes)}
    groups: list[list[Unit]] = []
    for unit in sorted(units, key=lambda unit: order[unit.nodes[0]]):
        if (
            groups
            and _alike(_kernel(unit, kernels), _kernel(groups[-1][-1], kernels))
            and follows(unit, groups[-1][-1])
        ):
            groups[-1].append(unit)
        elif unit.pieces:  # a mean alone is torch's
            groups.append([unit])
    return groups


def _kernel(unit: Unit, kernels: Mapping[str, str]) -> str:
    return kernels[unit.pieces[0].name] if unit.pieces else "chain"


def _alike(one: str, other: str) -> bool:
    """Whether layers by these kernels can be one part."""
    return one == "chain" == other or (one in DENSE_KERNELS and other in DENSE_KERNELS)


def _input_of_all(group: list[Unit], graph: fx.GraphModule) -> tuple[int, ...] | None:
    """The shape of one input, if these pieces are all that a model does once its input is flattened, or at once."""
    covered = {node for unit in group for node in unit.nodes}
    if graph.graph.output_node().args[0] is not group[-1].nodes[-1]:
        return None  # the model gives a tuple, or something else
    left = [
        node
        for node in graph.graph.nodes
        if node not in covered and node.op not in ("placeholder", "output")
    ]
    if not left:
        return group[0].shapes["in"]
    given = next(node for node in graph.graph.nodes if node.op == "placeholder")
    is_first = left == [group[0].source] and left[0].args[:1] == (given,)
    return _input_shape(graph)[1:] if is_first and flattens(left[0], given, graph) else None


def short_cut(owner: nn.Module, plan: Callable[[Tensor], Tensor], count: int) -> Direct:
    """A plan for as many inputs, without the ceremony of calling its owner, a module that does nothing else.

    It answers NotImplemented where that would be missed: with gradients, hooks or autocast.
    """
    found = plan.direct(owner, count) if isinstance(plan, ChainPart | HardWired) else None
    run = plan.forward if isinstance(plan, nn.Module) else plan
    return found or partial(_run, run, hooks_of(owner))


def _run(run: Callable[[Tensor], Tensor], hooks: tuple[Any, ...], x: Tensor) -> Any:
    casts = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    return NotImplemented if casts or torch.is_grad_enabled() or any(hooks) else run(x)
