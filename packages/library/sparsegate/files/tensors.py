"""Converts between torch tensors and the entries of files."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsegate_runtime.files import Array, Elements, Entry, bits_type

TYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "F32": torch.float32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
    "C64": torch.complex64,
}
"""The torch type of every element type in files."""
NAMES = {dtype: name for name, dtype in TYPES.items()}
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers that hold an element's bits, by its bytes."""


def type_name(tensor: Tensor) -> str:
    """The name in files of a tensor's type."""
    if tensor.dtype not in NAMES:
        known = ", ".join(map(str, NAMES))
        raise ValueError(f"files hold tensors of {known}; got {tensor.dtype}")
    return NAMES[tensor.dtype]


def pack_tensor(tensor: Tensor, *, negative_zeros: bool = False) -> Entry:
    """Encodes a tensor in the format that takes the fewest bits.

    >>> pack_tensor(torch.eye(100)).format.name
    'gaps'

    -0.0 becomes 0.0, unless `negative_zeros` is true.
    """
    dtype = type_name(tensor)
    return Entry.cheapest(to_elements(tensor), dtype, negative_zeros=negative_zeros)


def to_elements(tensor: Tensor) -> Elements:
    """The bits of a tensor's elements in row-major order, copied only if necessary."""
    integer = INTEGERS[tensor.dtype.itemsize]
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return Elements(flat.view(integer).numpy(), tuple(tensor.shape))


def unpack_tensor(entry: Entry) -> Tensor:
    """The dense tensor of an entry. Raises ValueError if the entry's parts do not make one.

    >>> unpack_tensor(pack_tensor(torch.eye(2)))
    tensor([[1., 0.],
            [0., 1.]])
    """
    entry.check()
    tensor = torch.empty(entry.shape, dtype=TYPES[entry.dtype])
    entry.write_(bits_of(tensor))
    return tensor


def bits_of(tensor: Tensor) -> Array:
    """A contiguous tensor's memory as integers: writing to the array writes to the tensor."""
    bits: Array = tensor.detach().view(-1).view(INTEGERS[tensor.dtype.itemsize]).numpy()
    assert bits.dtype == bits_type(type_name(tensor))
    return bits
