"""A network planned for inputs of certain sizes, and its memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import Memory, Plan, Tensor
from sparsegate_runtime.engine import network as n


class Planned:
    """The engine's plan; several threads may run it at once.

    Raises:
        ValueError: the engine cannot plan the network, or the plan takes too much memory.

    """

    def __init__(self, network: n.Network, most_bytes: int) -> None:
        try:
            self.plan = Plan(network)
        except (AssertionError, ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(
                f"the engine cannot plan this network ({type(error).__name__}: {error})"
            ) from error
        if 4 * self.plan.arena > most_bytes:
            raise ValueError(
                f"a run takes {4 * self.plan.arena:,} bytes, more than the limit of "
                f"{most_bytes:,}; raise limit= to run"
            )
        self.shapes = [one.shape for one in network.outputs]
        self._local = threading.local()

    def run(self, inputs: Sequence[NDArray[Any]], threads: int) -> list[NDArray[Any]]:
        """The outputs for contiguous inputs of the plan's shapes."""
        outputs = [self._output(one, inputs) for one in self.plan.outputs]
        self.plan.run(
            self._memory(threads),
            [one.ctypes.data for one in inputs],
            [one.ctypes.data for one in outputs],
            threads=threads,
        )
        return outputs

    def _output(self, place: Tensor, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Memory for an output; an input that is an output, too, is copied."""
        if place.buffer in self.plan.inputs:
            given = inputs[self.plan.inputs.index(place.buffer)]
            return given.reshape(place.shape).copy()
        return np.empty(place.shape, np.float32)

    def _memory(self, threads: int) -> Memory:
        found = self._local.__dict__.get("memory")
        if found is None or found[0] != threads:
            found = self._local.memory = threads, self.plan.memory(threads)
        made: Memory = found[1]
        return made
