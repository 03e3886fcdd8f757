"""Decodes interleaved rANS by the C kernels."""

from __future__ import annotations

import ctypes

import numpy as np

from sparsegate_runtime.kernels import KERNELS

from ..types import Array

WHOLE = 1 << 16
"""The sum of all frequencies."""


class CStream(ctypes.Structure):
    """`Stream` of rans.c."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("lanes", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("num_words", ctypes.c_int64),
    )


class InC:
    """The states and words of a stream, whose groups of symbols C decodes.

    Args:
        state: the states of all lanes, 64 bits each; they change in place.
        words: all words of the stream, two bytes each.

    """

    def __init__(self, state: Array, words: Array) -> None:
        words = np.require(words, np.uint16, ["C", "ALIGNED"])
        self._keep = state, words
        self._stream = CStream(state.ctypes.data, len(state), words.ctypes.data, len(words))

    def bits(self, first: int, count: int, one: int) -> tuple[Array, int]:
        """A group of bits from word `first` on, and the words taken so far."""
        assert KERNELS is not None
        out = np.zeros(count, bool)
        after = KERNELS.sg_rans_bits(
            ctypes.addressof(self._stream), first, count, one, out.ctypes.data
        )
        return out, _checked(after)

    def symbols(self, first: int, count: int, shares: Array) -> tuple[Array, int]:
        """A group of symbols with these frequencies, and the words taken so far."""
        assert KERNELS is not None
        out = np.zeros(count, np.uint16)
        tables = _tables(shares)
        after = KERNELS.sg_rans_symbols(
            ctypes.addressof(self._stream),
            first,
            count,
            *(table.ctypes.data for table in tables),
            out.ctypes.data,
        )
        return out, _checked(after)

    def pieces(self, first: int, count: int, choices: int) -> tuple[Array, int]:
        """A group of numbers below `choices`, a power of two, and the words taken so far."""
        assert KERNELS is not None
        out = np.zeros(count, np.uint16)
        bits = choices.bit_length() - 1
        after = KERNELS.sg_rans_pieces(
            ctypes.addressof(self._stream), first, count, bits, out.ctypes.data
        )
        return out, _checked(after)

    def split(self, first: int, count: int, shares: Array) -> tuple[Array, int]:
        """Numbers of 32 bits in three groups, and the words taken so far."""
        assert KERNELS is not None
        out = np.zeros(count, np.uint32)
        tables = _tables(shares)
        after = KERNELS.sg_rans_split(
            ctypes.addressof(self._stream),
            first,
            count,
            *(table.ctypes.data for table in tables),
            out.ctypes.data,
        )
        return out, _checked(after)


def _tables(shares: Array) -> tuple[Array, Array, Array]:
    """The symbol of every slot; the start and the frequency of every symbol."""
    symbol_of = np.repeat(np.arange(len(shares), dtype=np.uint16), shares)
    if len(symbol_of) != WHOLE:
        raise ValueError(f"the frequencies of a table have the sum {len(symbol_of)}")
    return symbol_of, (np.cumsum(shares) - shares).astype(np.uint32), shares.astype(np.uint32)


def _checked(after: int) -> int:
    if after < 0:
        raise ValueError("the stream ends too early")
    return after
