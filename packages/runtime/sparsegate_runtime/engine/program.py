"""Runs the steps of a plan by the engine in C."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparsegate_runtime.kernels import KERNELS

from .structures import COperation, CProgram, CStep, Kind, Structure


@dataclass(frozen=True)
class Operation:
    """An operation of the engine."""

    kind: Kind
    of: Structure


class Program:
    """Operations in C's form, and the steps that run them."""

    def __init__(
        self,
        operations: Sequence[Operation],
        steps: Sequence[tuple[int, int, int]],
        *,
        scratch: int,
    ) -> None:
        self.operations, self.steps, self.scratch = tuple(operations), tuple(steps), scratch
        self._operations = (COperation * len(operations))(
            *(COperation(one.kind, ctypes.addressof(one.of)) for one in operations)
        )
        self._steps = (CStep * len(steps))(*(CStep(*step) for step in steps))
        self._program = CProgram(
            ctypes.addressof(self._operations),
            ctypes.addressof(self._steps),
            len(steps),
            scratch,
        )

    def run(
        self,
        buffers: Any,
        first: int,
        last: int,
        scratch: int,
        *,
        threads: int = 1,
        variant: int = 2,
    ) -> None:
        """Runs steps `first` to `last` on buffers, an array of addresses, with scratch memory.

        Raises:
            ValueError: an operation met bad data, such as an index outside of its table.

        """
        assert KERNELS is not None
        program = ctypes.byref(self._program)
        if KERNELS.sg_engine_run(program, buffers, first, last, scratch, threads, variant):
            raise ValueError("an index is outside of its table; pass smaller indices")
