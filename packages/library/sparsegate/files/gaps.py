"""The format gaps: Rice-coded distances between kept elements, or between removed ones."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL

import numpy as np
import torch

from sparsegate_runtime.kernels import KERNELS

from .cost import Cost
from .format import (
    WINDOW,
    Array,
    Elements,
    Encoded,
    Format,
    Plan,
    check_bits,
    num_ones,
    packed_bits,
    taken,
    taken_values,
)

MAX_RICE = 31
SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(
    np.uint64
)[:, 0]
"""Every byte as eight bytes, one for each bit."""


class Gaps(Format):
    """Stores the kept elements and the gaps between the marked ones, those of which there are fewer."""

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

    def check(self, plan: Plan, parts: dict[str, Array], dtype: str) -> None:
        """Adds the gaps up without decoding them: counting ones is enough."""
        of, rice = plan.settings.get("of"), plan.settings.get("rice")
        if of not in ("kept", "removed") or type(rice) is not int or not 0 <= rice <= MAX_RICE:
            raise ValueError(
                f"of is kept or removed and rice from 0 to {MAX_RICE}, got {of!r} and {rice!r}"
            )
        taken_values(plan, parts, dtype)
        count = plan.kept if of == "kept" else plan.total - plan.kept
        quotients, last = _check_quotients(parts, count), -1
        sums = [num_ones(plane) for plane in _planes(parts, count, rice)]
        if count:
            last = (8 * len(quotients) - 8 + int(quotients[-1]).bit_length() - count) << rice
            last += sum(each << bit for bit, each in enumerate(sums)) + count - 1
        if last >= plan.total:
            raise ValueError(f"gaps lead to element {last} of {plan.total}")

    def write_(self, plan: Plan, parts: dict[str, Array], out: Array) -> None:
        """Adds the gaps up to positions and puts the values there, or everywhere else, a window at a time."""
        if KERNELS is not None and plan.settings["of"] == "kept" and out.flags.c_contiguous:
            _write_by_kernel_(KERNELS, plan, parts, out)
        else:
            _write_by_numpy_(plan, parts, out)


def _write_by_kernel_(
    kernels: CDLL, plan: Plan, parts: dict[str, Array], out: Array, *, wide: bool = True
) -> None:
    quotients, planes = (
        taken(parts, "quotients", "uint8"),
        _planes(parts, plan.kept, plan.settings["rice"]),
    )
    values = taken(parts, "values", str(out.dtype))
    quotients, planes, values = map(np.ascontiguousarray, (quotients, planes, values))
    kernels.sg_gaps_write(
        *(quotients.ctypes.data, len(quotients), planes.ctypes.data, planes.shape[1], len(planes)),
        *(
            values.ctypes.data,
            plan.kept,
            out.itemsize,
            out.ctypes.data,
            len(out),
            torch.get_num_threads(),
            wide,
        ),
    )


def _write_by_numpy_(plan: Plan, parts: dict[str, Array], out: Array) -> None:
    of, done, used = plan.settings["of"], 0, 0
    count = plan.kept if of == "kept" else plan.total - plan.kept
    values = taken(parts, "values", str(out.dtype))
    for marked in _positions(parts, count, plan.settings["rice"]):
        end = int(marked[-1]) + 1
        here = len(marked) if of == "kept" else end - done - len(marked)
        marked -= done
        _put(out[done:end], marked, values[used : used + here], of)
        done, used = end, used + here
    out[done:] = 0 if of == "kept" else values[used:]


def _put(window: Array, marked: Array, values: Array, of: str) -> None:
    """Fills a window of the tensor."""
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
    near = int(
        np.log2(gap.mean() + 1)
    )  # the best is within one of it, unless the gaps are far from geometric
    return min(
        range(max(0, near - 2), min(MAX_RICE, near + 2) + 1), key=lambda rice: _bits(gap, rice)
    )


def _check_quotients(parts: dict[str, Array], count: int) -> Array:
    quotients = taken(parts, "quotients", "uint8")
    ones = num_ones(quotients)
    if ones != count or (len(quotients) and quotients[-1] == 0):
        raise ValueError(
            f"quotients have {ones} ones in {len(quotients)} bytes, wanted {count}, one in the last"
        )
    return quotients


def _planes(parts: dict[str, Array], count: int, rice: int) -> Array:
    """The remainders' bits, a row for each, the lowest first."""
    length = -(-count // 8)
    planes: Array = taken(parts, "remainders", "uint8", rice * length).reshape(rice, length)
    for plane in planes:
        check_bits(plane, count, "remainders")
    return planes


def _positions(parts: dict[str, Array], count: int, rice: int) -> Iterator[Array]:
    """The marked elements, about a window of the tensor at a time.

    Gap i is (q[i] << rice) + r[i], and element i lies at the sum of all gaps so far, plus i. The sum of the quotients
    so far needs no adding up: it is the number of zeros before the quotients' one number i.
    """
    quotients, planes = taken(parts, "quotients", "uint8"), _planes(parts, count, rice)
    step, first, lost = max(64, WINDOW >> rice >> 3), 0, 0
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
        ones += lost + first
        yield ones
        first, lost = first + len(ones), lost + int(remainders[-1])


def _remainders(planes: Array, first: int, count: int) -> Array:
    """Some of the remainders."""
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
