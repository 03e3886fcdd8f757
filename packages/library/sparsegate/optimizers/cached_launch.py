"""Caches the launch that moves all gated weights: small networks spend longer on looking it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from sparsegate.price import Slope
from sparsegate.triton_call import Launch

from .launch import TOGETHER, Shift, Update, can_launch, launch_of, sizes_of

SharedRates = tuple[float, float, float, float, float]
"""Learning rate, momentum and decay of weights, learning rate and momentum of gates."""

State = Mapping[Tensor, dict[str, Any]]


class CachedLaunch:
    """Gated weights that the kernel can take, with the optimizer state that they had when checked.

    Args:
        updates: The tensors of each weight.
        state: The optimizer's state.
        params: The optimizer's lists of parameters.
        shifted: Whether every step comes with a shift of all gates.
    """

    def __init__(
        self, updates: Sequence[Update], state: State, *params: list[Tensor], shifted: bool = False
    ) -> None:
        self._sources = (state, *params)
        self.shifted = shifted
        self._members = [
            (
                *parts,
                parts.weight.data_ptr(),
                parts.gate.data_ptr(),
                grad.stride(),
                grad.dtype,
                state[parts.weight],
            )
            for parts, grad in updates
        ]
        self._groups = [
            _group(updates[first : first + TOGETHER], shifted=shifted)
            for first in range(0, len(updates), TOGETHER)
        ]
        self._device = updates[0].grad.device.index

    def comes_from(self, *sources: object) -> bool:
        """Whether it was made from these very objects; loading a state dict makes others."""
        return all(one is other for one, other in zip(self._sources, sources, strict=True))

    def grads(self) -> list[Float[Tensor, "..."]] | None:
        """The gradients of this step; None if any tensor has moved or changed."""
        if self._device is not None and torch.cuda.current_device() != self._device:
            return None
        grads = []
        for (
            weight,
            velocity,
            gate,
            gate_velocity,
            weight_pointer,
            gate_pointer,
            strides,
            dtype,
            state,
        ) in self._members:
            grad = weight.grad
            if (
                grad is None
                or grad.data_ptr() & 15
                or weight.data_ptr() != weight_pointer
                or gate.data_ptr() != gate_pointer
                or grad.stride() != strides
                or grad.dtype is not dtype
                or state.get("momentum_buffer") is not velocity
                or state.get("gate_momentum_buffer") is not gate_velocity
            ):
                return None
            grads.append(grad)
        return grads

    def step(
        self,
        grads: Sequence[Tensor],
        slopes: Sequence[Slope],
        rates: SharedRates,
        seed: int,
        shift: Shift = None,
    ) -> None:
        """Moves all weights and their gates once."""
        assert self.shifted == (shift is not None)
        first = 0
        for launch, columns, sizes in self._groups:
            last = first + len(sizes)
            bases, tilts = zip(*slopes[first:last], strict=True)
            launch(
                *columns,
                tuple(grads[first:last]),
                grads[first] if shift is None else shift,  # not read if there is no shift
                sizes,
                bases,
                tilts,
                *rates,
                (seed + first) % 2**31,
            )
            first = last


def cached_launch_of(
    updates: Sequence[Update], state: State, *params: list[Tensor], shifted: bool
) -> CachedLaunch | None:
    """The cached launch of all these weights, if the kernel can take them together."""
    fits = all(can_launch(*parts, grad) and parts.weight.numel() for parts, grad in updates)
    if not fits or len({update.parts.gate.dtype for update in updates}) != 1:
        return None
    return CachedLaunch(updates, state, *params, shifted=shifted)


def _group(
    updates: Sequence[Update], *, shifted: bool
) -> tuple[Launch, tuple[Any, ...], tuple[int, ...]]:
    """One launch, and the arguments that stay the same."""
    columns = tuple(zip(*(update.parts for update in updates), strict=True))
    return launch_of(updates, shifted=shifted), columns, sizes_of(updates)
