"""Stores the kept weights of a matrix, and packs them for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import Any
from weakref import finalize

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparsegate_runtime.engine import LANES, Weights

from ..chain import Chain
from ..chain_layer import MAX_VECTORS, ChainLayer


@dataclass(frozen=True)
class Kept:
    """The nonzero weights of a matrix or kernel, in 8 bytes each and 4 bytes for each row."""

    start: Int[Tensor, " rows_and_one"]
    column: Int[Tensor, " kept"]
    value: Float[Tensor, " kept"]
    shape: tuple[int, ...]
    """Shape of the dense weight; columns count all dimensions except the first."""

    @classmethod
    def of(cls, weight: Float[Tensor, "rows *columns"]) -> Kept:
        """Selects the weights that are not zero.

        >>> Kept.of(torch.tensor([[0.0, 2.0], [0.0, 0.0]])).column
        tensor([1], dtype=torch.int32)
        """
        flat = weight.detach().reshape(len(weight), prod(weight.shape[1:]))
        row, column = flat.nonzero(as_tuple=True)
        counts = torch.bincount(row, minlength=len(flat))
        start = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
        return cls(start, column.int(), flat[row, column].clone(), tuple(weight.shape))

    @property
    def sparsity(self) -> float:
        """The fraction of weights that are zero."""
        return 1 - len(self.value) / max(1, prod(self.shape))

    def dense(self) -> Float[Tensor, "rows *columns"]:
        """The dense weight, zeros included."""
        row = torch.repeat_interleave(torch.arange(self.shape[0]), self.start.diff().long())
        weight = torch.zeros(self.shape[0], prod(self.shape[1:]))
        weight[row, self.column.long()] = self.value
        return weight.reshape(self.shape)

    def layer(
        self, bias: Tensor | None, in_shape: tuple[int, int, int], **settings: Any
    ) -> ChainLayer:
        """A layer for the kernels that shares these weights instead of a dense matrix."""
        return ChainLayer(torch.empty(self.shape, device="meta"), bias, in_shape, **settings)

    def weights(self) -> Weights:
        """The row, column and value of each weight, for packing."""
        row = torch.repeat_interleave(torch.arange(self.shape[0]), self.start.diff().long())
        return Weights(row.numpy(), self.column.long().numpy(), self.value.numpy(), self.shape[0])


class PackedLayer:
    """One layer packed for the kernels, in the form for each batch size so far."""

    def __init__(self, layer: ChainLayer) -> None:
        self.chain = Chain([layer])
        self.most = _most_at_once(layer)
        """The most inputs of one call of the kernels; 0 if a single input is too large."""

    def __call__(self, x: Tensor, kept: Kept) -> Tensor:
        """Returns the layer's flat outputs."""
        if len(x) > self.most:
            return torch.cat([self(part, kept) for part in torch.split(x, self.most)])
        if len(x) not in self.chain._form_for:
            with _PACKING:  # one thread at a time: all of them share the layer
                found = self.chain.layers[0].__dict__
                found["weights"] = kept.weights()  # the layer would compute it from a dense weight
                self.chain._form(len(x))
                del found["weights"]  # 20 bytes per weight
        return self.chain(x)


def _most_at_once(layer: ChainLayer) -> int:
    """The most inputs that 32-bit byte offsets can address."""
    if layer.is_linear:
        vectors = REACH // (LANES * layer.input_size(single=False))
        return NO_LIMIT if vectors >= MAX_VECTORS else LANES * (1 << vectors.bit_length() >> 1)
    if LANES * layer.input_size(single=False) <= REACH:
        return NO_LIMIT
    return FEW_IMAGES if layer.input_size(single=True) <= REACH else 0


NO_LIMIT = 2**62
REACH = (2**31 - 1) // 4
"""The number of floats that 32-bit byte offsets can address."""
FEW_IMAGES = 3
"""Up to this batch size, the kernels take images one by one."""
MOST_SHAPES = 16
"""Input shapes for which a layer stays packed; a further one replaces the first."""
_PACKED: dict[int, dict[Any, PackedLayer]] = {}
"""Packed layers by the address of their values, then by input shape."""
_PACKING = Lock()


def packed(
    kept: Kept, bias: Tensor | None, in_shape: tuple[int, int, int], **settings: Any
) -> PackedLayer:
    """The packed layer of these weights; it lives as long as the tensor of the values."""
    place = kept.value.data_ptr()
    key = (0 if bias is None else bias.data_ptr(), in_shape)
    found = _PACKED.get(place, {}).get(key)
    if found is not None:
        return found
    with _PACKING:
        if place not in _PACKED:
            _PACKED[place] = {}
            finalize(kept.value, _PACKED.pop, place, None)
        shapes = _PACKED[place]
        if len(shapes) >= MOST_SHAPES:
            del shapes[next(iter(shapes))]
        shapes[key] = PackedLayer(kept.layer(bias, in_shape, **settings))
        return shapes[key]
