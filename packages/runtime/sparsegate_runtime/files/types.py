"""Lists the element types that files can hold."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]

MAX_ELEMENTS, MAX_DIMENSIONS = 2**48, 64

TYPES: dict[str, str] = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "U16": "u2",
    "I16": "i2",
    "F16": "f2",
    "BF16": "u2",
    "U32": "u4",
    "I32": "i4",
    "F32": "f4",
    "U64": "u8",
    "I64": "i8",
    "F64": "f8",
    "C64": "c8",
}
"""The name of each type in files, and numpy's type. BF16 and F8, which numpy lacks, are integers.

The order is part of the format `.sg`, which writes a type as its index in this table.
"""
FLOATS = ("F8_E4M3", "F8_E5M2", "F16", "BF16", "F32", "F64")


def item_size(dtype: str) -> int:
    """Bytes of one element.

    >>> item_size("BF16")
    2
    """
    return np.dtype(TYPES[dtype]).itemsize


def bits_type(dtype: str) -> np.dtype[Any]:
    """The signed integer type as wide as an element, which the formats use to hold its bits.

    >>> bits_type("F32")
    dtype('int32')
    """
    return np.dtype(f"<i{item_size(dtype)}")


def num_bytes(dtype: str, shape: Shape) -> int:
    """Bytes of a dense tensor."""
    return prod(shape) * item_size(dtype)


def printable(text: object) -> str:
    r"""The text in one line: a damaged file may name its tensors by any characters.

    >>> print(printable("a" + chr(10) + "b"))
    a\nb
    """
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in str(text))


def check_shape(name: str, shape: Shape) -> None:
    """Raises ValueError for a shape that numpy or torch cannot make.

    Zeros are left out of the product of sizes: an empty tensor of shape (0, 2**60) overflows too.
    """
    if len(shape) > MAX_DIMENSIONS or prod(max(1, size) for size in shape) > MAX_ELEMENTS:
        raise ValueError(
            f"{name} must have at most {MAX_DIMENSIONS} dimensions and {MAX_ELEMENTS:,} elements, "
            f"got the shape {str(shape)[:200]}"
        )
