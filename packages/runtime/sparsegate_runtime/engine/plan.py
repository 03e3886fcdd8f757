"""A network planned for inputs of certain shapes, and its run."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.kernels import KERNELS

from . import (
    rules_attention,
    rules_layers,
    rules_maps,
    rules_moves,
    rules_norms,
    rules_recurrent,
)
from . import structures as c
from .memory import aligned
from .network import External, Input, Network
from .pending import Pending
from .planner import Planner, UnplannedError
from .program import Operation, Program
from .schedule import BAND, Piece, place, steps_of
from .spans import Span
from .tensor import SLACK, Buffer, Tensor

RULES = {
    **rules_attention.RULES,
    **rules_layers.RULES,
    **rules_maps.RULES,
    **rules_moves.RULES,
    **rules_norms.RULES,
    **rules_recurrent.RULES,
}

Call = Callable[[External, Sequence[Tensor], "Memory"], int]
"""Runs an operation of the caller; gives the address of its result."""


class Plan:
    """The operations that compute a network, in C's form."""

    def __init__(
        self,
        network: Network,
        *,
        variant: int | None = None,
        band: int = BAND,
        side_by_side: bool = False,
    ) -> None:
        if KERNELS is None:
            raise UnplannedError("the C kernels were not built")
        self.variant = KERNELS.sg_variant() if variant is None else variant
        planner = Planner(network, RULES, variant=self.variant, side_by_side=side_by_side)
        self.side_by_side = side_by_side
        self.pending: tuple[Pending, ...] = tuple(planner.pending)
        self.inputs, self.outputs = planner.inputs, planner.outputs
        self.given = tuple(node for node in network.nodes if isinstance(node, Input))
        self.buffers = planner.slots.buffers
        self.arena = place(planner.pending, [one.buffer for one in planner.outputs]) + SLACK
        steps, self.pieces = steps_of(planner.pending, band)
        numbers = [index for index, one in enumerate(planner.pending) if one.kind is not None]
        at = {index: number for number, index in enumerate(numbers)}
        operations = [
            Operation(one.kind, one.make()) for one in planner.pending if one.kind is not None
        ]
        for one in planner.pending:
            one.make = c.Structure  # lets the weights go that it was made of
        self.steps = [(at[index], begin, end) for index, begin, end in steps]
        scratch = max([one.scratch for one in planner.pending], default=0) + 64
        self.program = Program(operations, self.steps, scratch=scratch)

    def memory(self, threads: int = 1) -> Memory:
        """Memory for one call at a time."""
        return Memory(self, threads)

    def run(
        self,
        memory: Memory,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        threads: int = 1,
        call: Call | None = None,
    ) -> None:
        """Computes the outputs.

        Args:
            memory: made by `memory`; nothing else uses it at the same time.
            inputs: the address of every input.
            outputs: the address of every output.
            threads: at most as many as the memory is for.
            call: runs the operations that the engine does not have.

        """
        self._set(memory, inputs, outputs)
        for piece in self.pieces:
            if piece.external < 0:
                self.program.run(
                    memory.addresses,
                    piece.first,
                    piece.last,
                    memory.scratch,
                    threads=threads,
                    variant=self.variant,
                )
            else:
                self._external(piece, memory, call)

    def spans(
        self, memory: Memory, inputs: Sequence[int], outputs: Sequence[int], *, call: Call
    ) -> list[Span]:
        """Runs on one thread, step by step, and says what each step took; arguments as of `run`."""
        self._set(memory, inputs, outputs)
        kinds = [one for one in self.pending if one.kind is not None]
        found, start = [], time.perf_counter()
        for piece in self.pieces:
            for step in range(piece.first, piece.last):
                operation, first, last = self.steps[step]
                began = time.perf_counter()
                self.program.run(
                    memory.addresses, step, step + 1, memory.scratch, variant=self.variant
                )
                seconds = time.perf_counter() - began
                one = kinds[operation]
                whole = sum(end - begin for begin, end in one.ranges) or abs(one.extent) or 1
                share = (last - first) / whole if last > first else 1.0
                found.append(
                    Span(
                        one.title,
                        one.kind_name,
                        began - start,
                        seconds,
                        share * one.work,
                        (first, last),
                    )
                )
            if piece.external >= 0:
                began = time.perf_counter()
                self._external(piece, memory, call)
                found.append(Span("torch", "torch", began - start, time.perf_counter() - began))
        return found

    @property
    def weight_bytes(self) -> int:
        """Memory of packed weights and constants."""
        constants = sum(one.constant.nbytes for one in self.buffers if one.constant is not None)
        packed: dict[int, int] = {}
        for one in self.program.operations:
            _find_arrays(one.of, packed)
        return constants + sum(packed.values())

    def _set(self, memory: Memory, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        addresses = memory.addresses
        for buffer, address in zip(self.inputs, inputs, strict=True):
            addresses[buffer.slot] = address
        for tensor, address in zip(self.outputs, outputs, strict=True):
            if tensor.buffer not in self.inputs:
                addresses[tensor.buffer.slot] = address

    def _external(self, piece: Piece, memory: Memory, call: Call | None) -> None:
        one = self.pending[piece.external]
        assert call is not None
        assert one.external is not None
        memory.addresses[one.writes[0].slot] = call(one.external, one.tensors, memory)


def _find_arrays(kept: Any, found: dict[int, int]) -> None:
    """Adds the bytes of each array that a structure, or a record of arrays, keeps."""
    if isinstance(kept, np.ndarray):
        found[id(kept)] = kept.nbytes
        return
    inside = kept.keep if isinstance(kept, c.Structure) else getattr(kept, "__dict__", {}).values()
    for one in inside:
        _find_arrays(one, found)


class Memory:
    """What one call of a plan writes to."""

    def __init__(self, plan: Plan, threads: int = 1) -> None:
        self.arena = aligned(plan.arena)
        self._room = aligned(threads * plan.program.scratch)
        self.scratch = self._room.ctypes.data
        self.addresses = (ctypes.c_void_p * (1 + len(plan.buffers)))()
        self.addresses[0] = self.arena.ctypes.data
        self.results: list[Any] = []
        for buffer in plan.buffers:
            if buffer.constant is not None:
                self.addresses[buffer.slot] = buffer.constant.ctypes.data

    def address(self, buffer: Buffer) -> int:
        """Where a buffer of the call lies."""
        found = self.addresses[buffer.slot]
        return int(found or 0)


class ThreadMemory:
    """The memory of a plan, of which every thread that asks gets its own.

    Args:
        plan: the plan; its memory is made again when the number of threads changes.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._local = plan, threading.local()

    def __call__(self, threads: int) -> Memory:
        """The memory for calls of the calling thread that use this number of threads."""
        found = self._local.__dict__.get("memory")
        if found is None or found[0] != threads:
            found = self._local.memory = threads, self._plan.memory(threads)
        made: Memory = found[1]
        return made


def run_arrays(
    plan: Plan, inputs: Sequence[NDArray[Any]], *, threads: int = 1
) -> list[NDArray[np.float32]]:
    """Computes a network without operations of the caller, from arrays to arrays."""
    memory = plan.memory(threads)
    given = [np.ascontiguousarray(one) for one in inputs]
    outputs = [np.empty(one.shape, np.float32) for one in plan.outputs]
    addresses = [one.ctypes.data for one in outputs]
    plan.run(memory, [one.ctypes.data for one in given], addresses, threads=threads)
    return outputs


__all__ = ["Memory", "Piece", "Plan", "ThreadMemory", "run_arrays"]
