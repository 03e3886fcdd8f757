"""A captured model, planned for inputs of certain shapes and run by the engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from sparsegate.graph import Example, Graph, capture
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.engine.plan import Memory, Plan
from sparsegate_runtime.engine.tensor import Tensor as Place

from .translate import translated

TYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}


class Planned:
    """What a model computes for inputs of these shapes; many threads may call it at once."""

    def __init__(self, graph: Graph) -> None:
        network, self.left = translated(graph)
        self.plan = Plan(network)
        self.graph = graph
        self.inputs = network.inputs
        self._local = threading.local()
        self._fixed = [
            one if not isinstance(one, torch.fx.Node) else None for one in graph.returned
        ]

    @classmethod
    def of(cls, model: torch.nn.Module, example: Example) -> Planned:
        """Captures and plans a model."""
        return cls(capture(model, example))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The outputs in the model's structure, from the tensors of the inputs in order."""
        threads = torch.get_num_threads()
        memory = self._memory(threads)
        given = [leaves[one.index].contiguous() for one in self.inputs]
        outputs = [torch.empty(one.shape) for one in self.plan.outputs]
        self.plan.run(
            memory,
            [one.data_ptr() for one in given],
            [one.data_ptr() for one in outputs],
            threads=threads,
            call=self._call,
        )
        memory.results.clear()
        found = iter(outputs)
        returned = [next(found) if isinstance(one, torch.fx.Node) else one for one in self.graph.returned]
        return _pytree.tree_unflatten(returned, self.graph.structure)

    def _memory(self, threads: int) -> Memory:
        found = self._local.__dict__.get("memory")
        if found is None or found[0] != threads:
            found = self._local.memory = threads, self.plan.memory(threads)
        made: Memory = found[1]
        return made

    def _call(self, node: n.External, sources: Sequence[Place], memory: Memory) -> int:
        """Runs an operation by torch, on views of the engine's memory."""
        values = [_as_torch(one, memory) for one in sources]
        result = node.run(*values)
        if isinstance(result, Tensor):
            result = result.contiguous()
        memory.results.append(result)
        if not isinstance(result, Tensor):
            return len(memory.results)
        return result.data_ptr()


def _as_torch(place: Place, memory: Memory) -> Any:
    import ctypes

    import numpy as np

    buffer = place.buffer
    if buffer.kind not in TYPES:
        return memory.results[memory.address(buffer) - 1]
    size = 1 + sum((s - 1) * t for s, t in zip(place.shape, place.strides, strict=True) if s)
    dtype = np.dtype(buffer.kind)
    address = memory.address(buffer) + (buffer.offset + place.offset) * dtype.itemsize
    raw = (ctypes.c_char * (max(1, size) * dtype.itemsize)).from_address(address)
    flat = torch.frombuffer(raw, dtype=TYPES[buffer.kind])
    return flat.as_strided(place.shape, place.strides)
