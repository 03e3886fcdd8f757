"""Puts sparse parts into a traced model's forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, fx, nn

from sparsegate.export import hard_wire

from .dense_part import DENSE_KERNELS, DensePart, dense_part
from .part import sparse_part
from .pieces import Piece, follows, pieces


def planned(
    model: nn.Module, graph: fx.GraphModule, kernels: Mapping[str, str], *, channels_last: bool = False
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
    groups = _groups([found[name] for name in found if kernels.get(name, "dense") != "dense"], kernels)
    if not groups and not channels_last:
        return model.forward
    copied = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    _lay_out_(copied, kernels, channels_last)
    nodes = {node.name: node for node in copied.graph.nodes}
    for number, group in enumerate(groups):
        part = _part(group, [kernels[piece.name] for piece in group])
        if len(groups) == 1 and not isinstance(part, DensePart) and _is_all_of(group, graph):
            return part.forward
        copied.add_module(f"sparse_{number}", part)
        first, last = nodes[group[0].nodes[0].name], nodes[group[-1].nodes[-1].name]
        with copied.graph.inserting_before(first):  # where its input has not been changed in place yet
            called = copied.graph.call_module(f"sparse_{number}", (first.args[0],))
        last.replace_all_uses_with(called)
        for node in reversed([node for piece in group for node in piece.nodes]):  # and no other: it may act in place
            copied.graph.erase_node(nodes[node.name])
    copied.recompile()
    return copied


def _part(group: list[Piece], kernels: list[str]) -> nn.Module:
    return dense_part(group, kernels) if kernels[0] in DENSE_KERNELS else sparse_part(group, kernels[0])


def _lay_out_(graph: fx.GraphModule, kernels: Mapping[str, str], channels_last: bool) -> None:
    """Gives every convolution a copy of its weights with the channels last, if wanted; the model keeps its own."""
    if channels_last or not {*kernels.values()}.isdisjoint(DENSE_KERNELS):
        _allow_any_layout_(graph)
    for name, module in list(graph.named_modules()):
        if channels_last and isinstance(module, nn.Conv2d):
            graph.set_submodule(name, copy.deepcopy(module).to(memory_format=torch.channels_last))  # type: ignore[call-overload]


def _allow_any_layout_(graph: fx.GraphModule) -> None:
    """Views may copy, as images with their channels last cannot always be viewed; the output is laid out as usual."""
    for node in graph.graph.nodes:
        if node.op == "call_method" and node.target == "view" and torch.dtype not in map(type, node.args):
            node.target = "reshape"
    output = graph.graph.output_node()
    with graph.graph.inserting_before(output):
        output.args = (graph.graph.call_method("contiguous", output.args),)


def _input_shape(graph: fx.GraphModule) -> tuple[int, ...]:
    shape: tuple[int, ...] = next(node for node in graph.graph.nodes if node.op == "placeholder").meta["shape"]
    return shape


def _groups(chosen: list[Piece], kernels: Mapping[str, str]) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    for piece in chosen:
        if groups and _alike(kernels[piece.name], kernels[groups[-1][-1].name]) and follows(piece, groups[-1][-1]):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _alike(one: str, other: str) -> bool:
    """Whether layers by these kernels can be one part."""
    return one == "chain" == other or (one in DENSE_KERNELS and other in DENSE_KERNELS)


def _is_all_of(group: list[Piece], graph: fx.GraphModule) -> bool:
    covered = {node for piece in group for node in piece.nodes}
    if graph.graph.output_node().args[0] is not group[-1].nodes[-1]:
        return False  # the model gives a tuple, or something else
    return all(node in covered or node.op in ("placeholder", "output") for node in graph.graph.nodes)
