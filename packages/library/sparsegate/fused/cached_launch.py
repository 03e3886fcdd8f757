"""Weights and gates that one launch moves, looked up once: in a small network that takes longer than moving them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.price import Slope
from sparsegate.triton_call import Launch

from .launch import TOGETHER, Row, can_go_fast, launch_of, sizes_of

Rates = tuple[float, float, float, float, float]
"""Rate, momentum and decay of weights, rate and momentum of gates."""

State = Mapping[Tensor, dict[str, Any]]


class Convoy:
    """Gated weights that were all found fit for the kernel, with the state of an optimiser that they have there."""

    def __init__(self, rows: Sequence[Row], state: State, *params: list[Tensor]) -> None:
        self._sources = (state, *params)
        self._members = [
            (
                *parts,
                parts.weight.data_ptr(),
                parts.gate.data_ptr(),
                grad.stride(),
                grad.dtype,
                state[parts.weight],
            )
            for parts, grad in rows
        ]
        self._groups = [
            _group(rows[first : first + TOGETHER]) for first in range(0, len(rows), TOGETHER)
        ]
        self._device = rows[0].grad.device.index

    def comes_from(self, *sources: object) -> bool:
        """Whether it was made of this very state and these very lists of parameters: whoever loads makes others."""
        return all(one is other for one, other in zip(self._sources, sources, strict=True))

    def grads(self) -> list[Float[Tensor, "..."]] | None:
        """The gradients of this step, or nothing if a tensor is not where or what it was."""
        if self._device is not None and torch.cuda.current_device() != self._device:
            return None
        grads = []
        for (
            weight,
            speed,
            gate,
            gate_speed,
            place,
            gate_place,
            strides,
            kind,
            state,
        ) in self._members:
            grad = weight.grad
            if (
                grad is None
                or grad.data_ptr() & 15
                or weight.data_ptr() != place
                or gate.data_ptr() != gate_place
                or grad.stride() != strides
                or grad.dtype is not kind
                or state.get("momentum_buffer") is not speed
                or state.get("gate_momentum_buffer") is not gate_speed
            ):
                return None
            grads.append(grad)
        return grads

    def move(
        self, grads: Sequence[Tensor], slopes: Sequence[Slope], rates: Rates, seed: int
    ) -> None:
        """One step of all of them."""
        first = 0
        for launch, columns, sizes in self._groups:
            last = first + len(sizes)
            bases, tilts = zip(*slopes[first:last], strict=True)
            launch(
                *columns,
                tuple(grads[first:last]),
                sizes,
                bases,
                tilts,
                *rates,
                (seed + first) % 2**31,
            )
            first = last


def convoy_of(rows: Sequence[Row], state: State, *params: list[Tensor]) -> Convoy | None:
    """The convoy of all these weights, if the kernel takes them as they are."""
    fits = all(can_go_fast(*parts, grad) and parts.weight.numel() for parts, grad in rows)
    return (
        Convoy(rows, state, *params)
        if fits and len({row.parts.gate.dtype for row in rows}) == 1
        else None
    )


def _group(rows: Sequence[Row]) -> tuple[Launch, tuple[Any, ...], tuple[int, ...]]:
    """One launch, and what it takes that stays the same."""
    return launch_of(rows), tuple(zip(*(row.parts for row in rows), strict=True)), sizes_of(rows)
