"""Tensors as whole numbers that hold their bits, and back."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch import Tensor

from .format import Array, Elements

# safetensors' name, torch's type, and the whole number of the same width that numpy can hold
TYPES: dict[str, tuple[torch.dtype, torch.dtype]] = {
    "BOOL": (torch.bool, torch.int8),
    "U8": (torch.uint8, torch.int8),
    "I8": (torch.int8, torch.int8),
    "F8_E4M3": (torch.float8_e4m3fn, torch.int8),
    "F8_E5M2": (torch.float8_e5m2, torch.int8),
    "U16": (torch.uint16, torch.int16),
    "I16": (torch.int16, torch.int16),
    "F16": (torch.float16, torch.int16),
    "BF16": (torch.bfloat16, torch.int16),
    "U32": (torch.uint32, torch.int32),
    "I32": (torch.int32, torch.int32),
    "F32": (torch.float32, torch.int32),
    "U64": (torch.uint64, torch.int64),
    "I64": (torch.int64, torch.int64),
    "F64": (torch.float64, torch.int64),
    "C64": (torch.complex64, torch.int64),
}
NAMES = {kind: name for name, (kind, _) in TYPES.items()}


def type_name(tensor: Tensor) -> str:
    """The file's name of a tensor's type."""
    if tensor.dtype not in NAMES:
        raise ValueError(
            f"tensors of type {tensor.dtype} cannot be stored; known are {', '.join(map(str, NAMES))}"
        )
    return NAMES[tensor.dtype]


def to_elements(tensor: Tensor, *, negative_zeros: bool = False) -> Elements:
    """The bits of a tensor's elements, in row-major order, copied only if need be; -0.0 becomes 0.0 unless kept."""
    whole = TYPES[type_name(tensor)][1]
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    bits = flat.view(whole).numpy()
    if not negative_zeros and num_negative_zeros(bits, tensor):
        bits = np.where(bits == np.iinfo(bits.dtype).min, bits.dtype.type(0), bits)
    return Elements(bits, tuple(tensor.shape))


def num_negative_zeros(bits: Array, tensor: Tensor) -> int:
    """How many elements are -0.0, given the bits of them all."""
    return (
        int(np.count_nonzero(bits == np.iinfo(bits.dtype).min)) if tensor.is_floating_point() else 0
    )


def zeros(dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of zeros."""
    return torch.zeros(shape, dtype=TYPES[dtype][0])


def empty(dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor with anything in it."""
    return torch.empty(shape, dtype=TYPES[dtype][0])


def whole_type(dtype: str) -> str:
    """The name of the whole numbers that hold a type's bits, as numpy has it."""
    return f"int{8 * TYPES[dtype][1].itemsize}"


def bits_of(tensor: Tensor) -> Array:
    """A contiguous tensor's memory as whole numbers: writing to them writes to the tensor."""
    return tensor.detach().view(-1).view(TYPES[type_name(tensor)][1]).numpy()


def num_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The size of a dense tensor."""
    return prod(shape) * TYPES[dtype][1].itemsize
