"""A captured model, planned for inputs of certain shapes and run by the engine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.utils import _pytree

from sparsegate.graph import Example, Graph, Other, capture
from sparsegate_runtime.engine import Memory, Plan, Span, ThreadMemory
from sparsegate_runtime.engine import Tensor as Place
from sparsegate_runtime.engine import network as n

from .translate import translated

TYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}


ROUNDS, SLOW = 5, 0.1
"""Runs of which the costs are medians, and the seconds of a run from which on one must do."""
WEIGHTED = ("multiply", "dense multiply", "matrix vector")
"""Kinds of operations that multiply with weights."""


@dataclass(frozen=True)
class Cost:
    """The cost of a layer, or of all operations of one kind that belong to no layer."""

    name: str
    milliseconds: float
    work: float
    """Floating-point operations: two for each kept weight at each position."""
    has_weights: bool = False
    """Whether fewer kept weights would make it faster."""


class Planned:
    """A model planned for inputs of certain shapes; several threads may call it at once."""

    def __init__(
        self,
        graph: Graph,
        translation: tuple[n.Network, list[str]] | None = None,
        *,
        side_by_side: bool = False,
    ) -> None:
        network, self.left = translation or translated(graph)
        """The operators that torch runs."""
        self.plan = Plan(network, side_by_side=side_by_side)
        self.inputs = network.inputs
        self.is_chain = _is_chain(graph)
        """Whether every operation reads only the previous one."""
        self._outputs = [isinstance(one, fx.Node) for one in graph.returned]
        self._fixed = [None if isinstance(one, fx.Node) else one for one in graph.returned]
        self._structure = graph.structure
        self._keep = graph.operations  # owns the operators that torch runs
        self._memory = ThreadMemory(self.plan)

    @classmethod
    def of(cls, model: torch.nn.Module, example: Example, *, side_by_side: bool = False) -> Planned:
        """Captures and plans a model; see `captured` for what cannot be."""
        return cls(captured(model, example), side_by_side=side_by_side)

    def __call__(self, leaves: Sequence[Any], groups: int = 1) -> Any:
        """Returns the outputs, in the model's structure.

        Args:
            leaves: the input tensors, in order.
            groups: the batch has this many times the images of the plan, which runs once per group.
        """
        threads = torch.get_num_threads()
        memory = self._memory(threads)
        given = [leaves[one.index].contiguous() for one in self.inputs]
        outputs = self._rooms(given, groups)
        for group in range(groups):
            self.plan.run(
                memory,
                [_part(one, group, groups) for one in given],
                [_part(one, group, groups) for one in outputs],
                threads=threads,
                call=_call,
            )
            memory.results.clear()
        found = iter(outputs)
        returned = [
            next(found) if is_tensor else fixed
            for is_tensor, fixed in zip(self._outputs, self._fixed, strict=True)
        ]
        return _pytree.tree_unflatten(returned, self._structure)

    def spans(self, leaves: Sequence[Any], groups: int = 1) -> list[Span]:
        """Runs step by step on one thread and returns the time of each step."""
        memory = self._memory(1)
        given = [leaves[one.index].contiguous() for one in self.inputs]
        outputs = self._rooms(given, groups)
        found: list[Span] = []
        for group in range(groups):
            before = found[-1].begin + found[-1].seconds if found else 0.0
            addresses = [[_part(one, group, groups) for one in each] for each in (given, outputs)]
            spans = self.plan.spans(memory, *addresses, call=_call)
            found += [replace(span, begin=span.begin + before) for span in spans]
            memory.results.clear()
        return found

    def costs(self, leaves: Sequence[Any], groups: int = 1) -> list[Cost]:
        """What every layer takes, and other operations by kind: the medians of some runs."""
        runs = [_by_name(self.spans(leaves, groups))]
        rounds = ROUNDS if sum(spent for spent, _, _ in runs[0].values()) < SLOW else 1
        runs += [_by_name(self.spans(leaves, groups)) for _ in range(rounds - 1)]
        return [
            Cost(name, 1e3 * median(run[name][0] for run in runs), work, has_weights)
            for name, (_, work, has_weights) in runs[0].items()
        ]

    def _rooms(self, given: Sequence[Tensor], groups: int) -> list[Tensor]:
        """Memory for the outputs of all groups; an input that is an output is copied."""
        rooms = []
        for one in self.plan.outputs:
            if one.buffer in self.plan.inputs:
                rooms.append(given[self.plan.inputs.index(one.buffer)].clone())
            else:
                first, *others = one.shape or (1,)
                rooms.append(torch.empty(one.shape if groups == 1 else (groups * first, *others)))
        return rooms


def captured(model: torch.nn.Module, example: Example) -> Graph:
    """The graph of a model for inputs like these.

    Raises:
        ValueError: the model cannot be captured, or its forward changes its buffers.

    """
    graph = capture(model, example)
    if graph.changed:
        raise ValueError(f"its forward changes {graph.changed[0]}")
    return graph


def _by_name(spans: Sequence[Span]) -> dict[str, tuple[float, float, bool]]:
    """The seconds and the work of all spans of a name, and whether weights are behind them."""
    found: dict[str, tuple[float, float, bool]] = {}
    for span in spans:
        seconds, work, _ = found.get(span.name, (0.0, 0.0, False))
        found[span.name] = seconds + span.seconds, work + span.work, span.kind in WEIGHTED
    return found


def _part(tensor: Tensor, group: int, groups: int) -> int:
    """The address of a group of images."""
    return tensor.data_ptr() + group * tensor.nbytes // groups


def _is_chain(graph: Graph) -> bool:
    alone = all(len(node.inputs) <= 1 and not isinstance(node, Other) for node in graph.nodes)
    return alone and all(len(readers) <= 1 for readers in graph.readers.values())


def _call(node: n.External, sources: Sequence[Place], memory: Memory) -> int:
    """Runs an operation by torch, on views of the engine's memory."""
    result = node.run(*(_as_torch(one, memory) for one in sources))
    result = _pytree.tree_map_only(Tensor, partial(_own, memory), result)
    memory.results.append(result)
    return result.data_ptr() if isinstance(result, Tensor) else len(memory.results)


def _own(memory: Memory, result: Tensor) -> Tensor:
    """A tensor without gaps in memory that the engine does not write to."""
    begin = memory.addresses[0] or 0
    if begin <= result.data_ptr() < begin + memory.arena.nbytes:
        return result.clone(memory_format=torch.contiguous_format)
    return result.contiguous()


def _as_torch(place: Place, memory: Memory) -> Any:
    """A view of the engine's memory; what is no tensor, or of another type, as it was made."""
    buffer = place.buffer
    address = memory.address(buffer)
    if buffer.kind not in TYPES:
        for result in memory.results:
            if isinstance(result, Tensor) and result.data_ptr() == address:
                return result
        return memory.results[address - 1]
    steps = zip(place.shape, place.strides, strict=True)
    size = 1 + sum((count - 1) * stride for count, stride in steps if count)
    dtype = np.dtype(buffer.kind)
    begin = address + (buffer.offset + place.offset) * dtype.itemsize
    raw = (ctypes.c_char * (max(1, size) * dtype.itemsize)).from_address(begin)
    flat = torch.frombuffer(raw, dtype=TYPES[buffer.kind])
    return flat.as_strided(place.shape, place.strides)
