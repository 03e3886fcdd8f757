"""The format gaps: Rice-coded distances between kept elements, or between removed ones."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL

import numpy as np

from sparsegate_runtime import threads
from sparsegate_runtime.kernels import KERNELS

from .cost import Cost
from .format import (
    WINDOW,
    Description,
    Elements,
    Encoded,
    Format,
    check_bits,
    num_ones,
    packed_bits,
    part_of,
    values_of,
)
from .types import Array

MAX_RICE = 31
SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(
    np.uint64
)[:, 0]
"""Every byte as eight bytes, one for each bit."""


class GapsFormat(Format):
    """Stores the kept elements, and the gaps between kept or removed ones, whichever are fewer."""

    name = "gaps"
    parts = ("values", "quotients", "remainders")

    def cost(self, elements: Elements) -> Cost:
        """The kept elements, and the gaps at the best Rice parameter."""
        gap = _gaps(_marked(elements, _fewer(elements)))
        return Cost(
            values=8 * elements.bits.itemsize * elements.num_kept,
            indices=_bits(gap, _best_rice(gap)),
        )

    def encode(self, elements: Elements) -> Encoded:
        """The kept elements, the gaps' quotients in unary, and their remainders in bit planes."""
        of = _fewer(elements)
        gap = _gaps(_marked(elements, of))
        rice = _best_rice(gap)
        ones = np.cumsum((gap >> rice) + 1) - 1
        unary = np.zeros(ones[-1] + 1 if len(ones) else 0, bool)
        unary[ones] = True
        planes = [packed_bits((gap >> bit) & 1 != 0) for bit in range(rice)]
        remainders = np.concatenate(planes) if planes else np.zeros(0, np.uint8)
        parts = {
            "values": elements.values,
            "quotients": packed_bits(unary),
            "remainders": remainders,
        }
        return Encoded(parts, {"of": of, "rice": rice})

    def check(self, description: Description, parts: dict[str, Array], dtype: str) -> None:
        """Sums the gaps by counting ones, without decoding them."""
        of, rice = description.settings.get("of"), description.settings.get("rice")
        if of not in ("kept", "removed") or type(rice) is not int or not 0 <= rice <= MAX_RICE:
            raise ValueError(
                f"of must be 'kept' or 'removed' and rice from 0 to {MAX_RICE}, "
                f"got {of!r} and {rice!r}"
            )
        values_of(description, parts, dtype)
        count = description.kept if of == "kept" else description.total - description.kept
        quotients, last = _check_quotients(parts, count), -1
        sums = [num_ones(plane) for plane in _planes(parts, count, rice)]
        if count:
            last = (8 * len(quotients) - 8 + int(quotients[-1]).bit_length() - count) << rice
            last += sum(ones << bit for bit, ones in enumerate(sums)) + count - 1
        if last >= description.total:
            raise ValueError(f"gaps must end below element {description.total}, got {last}")

    def write_(self, description: Description, parts: dict[str, Array], out: Array) -> None:
        """Sums the gaps to positions and writes the values there, or everywhere else."""
        if KERNELS is not None and description.settings["of"] == "kept" and out.flags.c_contiguous:
            _write_by_kernel_(KERNELS, description, parts, out)
        else:
            _write_by_numpy_(description, parts, out)


def _write_by_kernel_(
    kernels: CDLL,
    description: Description,
    parts: dict[str, Array],
    out: Array,
    *,
    wide: bool = True,
) -> None:
    rice = description.settings["rice"]
    quotients = np.ascontiguousarray(part_of(parts, "quotients", "uint8"))
    planes = np.ascontiguousarray(_planes(parts, description.kept, rice))
    values = np.ascontiguousarray(part_of(parts, "values", str(out.dtype)))
    kernels.sg_gaps_write(
        quotients.ctypes.data,
        len(quotients),
        planes.ctypes.data,
        planes.shape[1],
        rice,
        values.ctypes.data,
        description.kept,
        out.itemsize,
        out.ctypes.data,
        len(out),
        threads.count(),
        wide,
    )


def _write_by_numpy_(description: Description, parts: dict[str, Array], out: Array) -> None:
    of, done, used = description.settings["of"], 0, 0
    count = description.kept if of == "kept" else description.total - description.kept
    values = part_of(parts, "values", str(out.dtype))
    for marked in _positions(parts, count, description.settings["rice"]):
        end = int(marked[-1]) + 1
        taken = len(marked) if of == "kept" else end - done - len(marked)
        marked -= done
        _fill_(out[done:end], marked, values[used : used + taken], of)
        done, used = end, used + taken
    out[done:] = 0 if of == "kept" else values[used:]


def _fill_(window: Array, marked: Array, values: Array, of: str) -> None:
    """Writes every element of a window of the tensor, in place."""
    if of == "kept":
        window[:] = 0
        window[marked] = values
        return
    mask = np.ones(len(window), bool)
    mask[marked] = False
    window[mask] = values
    window[marked] = 0


def _fewer(elements: Elements) -> str:
    return "kept" if 2 * elements.num_kept <= len(elements.bits) else "removed"


def _marked(elements: Elements, of: str) -> Array:
    return elements.positions if of == "kept" else np.flatnonzero(elements.bits == 0)


def _gaps(positions: Array) -> Array:
    return np.diff(positions, prepend=-1) - 1


def _bits(gap: Array, rice: int) -> int:
    unary = int((gap >> rice).sum()) + len(gap)
    return 8 * (-(-unary // 8) + rice * -(-len(gap) // 8))


def _best_rice(gap: Array) -> int:
    if len(gap) == 0:
        return 0
    # The best is within one of this guess, unless the gaps are far from geometric.
    guess = int(np.log2(gap.mean() + 1))
    tried = range(max(0, guess - 2), min(MAX_RICE, guess + 2) + 1)
    return min(tried, key=lambda rice: _bits(gap, rice))


def _check_quotients(parts: dict[str, Array], count: int) -> Array:
    quotients = part_of(parts, "quotients", "uint8")
    ones = num_ones(quotients)
    if ones != count or (len(quotients) and quotients[-1] == 0):
        raise ValueError(
            f"quotients must have {count} ones, with one in the last byte, "
            f"got {ones} in {len(quotients)} bytes"
        )
    return quotients


def _planes(parts: dict[str, Array], count: int, rice: int) -> Array:
    """The bit planes of the remainders, the lowest first."""
    length = -(-count // 8)
    planes: Array = part_of(parts, "remainders", "uint8", rice * length).reshape(rice, length)
    for plane in planes:
        check_bits(plane, count, "remainders")
    return planes


def _positions(parts: dict[str, Array], count: int, rice: int) -> Iterator[Array]:
    """The positions of the marked elements, about a window of the tensor at a time.

    Gap i is (q[i] << rice) + r[i]. Element i is at the sum of the gaps up to i, plus i. The sum of
    quotients needs no addition: it is the number of zeros before one number i of `quotients`.
    """
    quotients, planes = part_of(parts, "quotients", "uint8"), _planes(parts, count, rice)
    step, first, remainder_sum = max(64, WINDOW >> rice >> 3), 0, 0
    ramp = np.arange(8 * step)
    for begin in range(0, len(quotients), step):
        ones = np.flatnonzero(
            np.unpackbits(quotients[begin : begin + step], bitorder="little").view(bool)
        )
        if len(ones) == 0:
            continue
        ones -= ramp[: len(ones)]
        ones += 8 * begin - first
        ones <<= rice
        remainders = np.cumsum(_remainders(planes, first, len(ones)), dtype=np.int64)
        ones += remainders
        ones += ramp[: len(ones)]
        ones += remainder_sum + first
        yield ones
        remainder_sum += int(remainders[-1])
        first += len(ones)


def _remainders(planes: Array, first: int, count: int) -> Array:
    """`count` remainders from number `first` on."""
    if len(planes) <= 8:  # eight at a time
        words = np.zeros(-(-(first + count) // 8) - first // 8, np.uint64)
        for bit, plane in enumerate(planes[:, first // 8 : -(-(first + count) // 8)]):
            words |= SPREAD[plane] << np.uint64(bit)
        return words.view(np.uint8)[first % 8 : first % 8 + count]
    skip, found = first % 8, np.zeros(count, np.min_scalar_type((1 << len(planes)) - 1))
    for bit, plane in enumerate(planes[:, first // 8 : -(-(first + count) // 8)]):
        bits = np.unpackbits(plane, count=skip + count, bitorder="little")[skip:]
        found |= bits.astype(found.dtype) << found.dtype.type(bit)
    return found
