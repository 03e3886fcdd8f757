"""Puts kernels into a captured model's forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.export import HardWired, hard_wire
from sparsegate.fast_call import hooks_of
from sparsegate.graph import Graph, Input, Node, Reshape

from .block import in_order, joined
from .dense_part import DENSE_KERNELS, dense_part
from .part import ChainPart, Direct, sparse_part
from .sparsable import Unit, flattens, follows, pieces


def planned(
    graph: Graph, kernels: Mapping[str, str], *, channels_last: bool = False
) -> Callable[[Tensor], Tensor]:
    """The model's forward pass, with consecutive sparse layers run by one part.

    Args:
        graph: the model, captured for any batch size.
        kernels: by which kernel each layer runs.
        channels_last: run the convolutions that stay dense in that layout, which oneDNN often does
            faster.

    """
    if "hardwired" in kernels.values():
        return hard_wire(graph.model, example=torch.zeros(_input_shape(graph)))
    found = {piece.name: piece for piece in pieces(graph)}
    missing = [name for name in kernels if name not in found]
    if missing:
        raise ValueError(f"the model has no layers {', '.join(missing)}; it has {', '.join(found)}")
    groups = _groups(graph, {name: kernel for name, kernel in kernels.items() if kernel != "dense"})
    if not groups and not channels_last:
        model = graph.model  # whose own hooks are part of what was captured
        return model.__call__ if any(hooks_of(model)) else model.forward
    swaps: dict[Node, tuple[nn.Module, Node]] = {}
    for group in groups:
        inside = [piece for unit in group for piece in unit.pieces]
        names, whole = [kernels[piece.name] for piece in inside], _input_of_all(group, graph)
        if names[0] in DENSE_KERNELS:
            part: nn.Module = dense_part(inside, names)
        else:
            part = sparse_part(group, names[0], whole)
            if whole and (names[0] == "chain" or whole == group[0].shapes["in"]):
                return part
        swaps[group[-1].nodes[-1]] = part, group[0].source
    return graph.runnable(swaps, channels_last=channels_last)


def _input_shape(graph: Graph) -> tuple[int, ...]:
    return next(node for node in graph.nodes if isinstance(node, Input)).shape


def _groups(graph: Graph, kernels: Mapping[str, str]) -> list[list[Unit]]:
    """Groups consecutive units whose kernels can run as one part, without those of torch."""
    chosen = [piece for piece in pieces(graph) if piece.name in kernels]
    chained = joined([piece for piece in chosen if kernels[piece.name] == "chain"], graph)
    units: list[Unit] = [*chained, *(piece for piece in chosen if kernels[piece.name] != "chain")]
    groups: list[list[Unit]] = []
    for unit in in_order(units, graph):
        before = groups[-1][-1] if groups else None
        if (
            before is not None
            and _are_alike(_kernel(unit, kernels), _kernel(before, kernels))
            and follows(unit, before, graph)
        ):
            groups[-1].append(unit)
        elif unit.pieces:  # torch runs a mean alone
            groups.append([unit])
    return groups


def _kernel(unit: Unit, kernels: Mapping[str, str]) -> str:
    return kernels[unit.pieces[0].name] if unit.pieces else "chain"


def _are_alike(one: str, other: str) -> bool:
    """Whether layers with these kernels can run in one part."""
    return one == "chain" == other or (one in DENSE_KERNELS and other in DENSE_KERNELS)


def _input_of_all(group: Sequence[Unit], graph: Graph) -> tuple[int, ...] | None:
    """The shape of one input if the group is the whole model, apart from flattening."""
    covered = {node for unit in group for node in unit.nodes}
    if graph.outputs != (group[-1].nodes[-1],):
        return None
    given, *before = [node for node in graph.nodes if node not in covered]
    if not before:
        return group[0].shapes["in"]
    is_flattening = all(isinstance(node, Reshape) and node.batched for node in before)
    if not is_flattening or not (flattens(before[-1]) or len(before[-1].shape) == 2):
        return None
    return given.shape[1:] if group[0].source is before[-1] else None


def short_cut(owner: nn.Module, plan: Callable[[Tensor], Tensor], count: int) -> Direct:
    """Makes a faster call of a plan for a module that does nothing else.

    The call returns NotImplemented with gradients, hooks or autocast.
    """
    found = plan.direct(owner, count) if isinstance(plan, ChainPart | HardWired) else None
    run = plan.forward if isinstance(plan, nn.Module) else plan
    return found or partial(_run, run, hooks_of(owner))


def _run(run: Callable[[Tensor], Tensor], hooks: tuple[Any, ...], x: Tensor) -> Any:
    casts = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    return NotImplemented if casts or torch.is_grad_enabled() or any(hooks) else run(x)
