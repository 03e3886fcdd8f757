"""Turns weights into pictures: packed bits of masks, and the filters of the first convolution."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from sparsegate.files import Entry, unpack_tensor

from ..network_view import Filters, Mask

MAX_BITS = 2**19  # a larger mask is shown coarsely
MAX_DOTS = 2**14
MAX_FILTERS = 64


def mask_of(name: str, entry: Entry) -> Mask:
    """Returns the mask of a weight: a bit per element, or a byte per block of a large one."""
    rows, total = entry.shape[0], entry.total
    mask = entry.mask().reshape(rows, -1)
    columns = mask.shape[1]
    if total <= MAX_BITS:
        return Mask(
            name, rows, columns, entry.kept, total, np.packbits(mask, bitorder="little").tobytes()
        )
    block = ceil(sqrt(total / MAX_DOTS))
    return Mask(name, rows, columns, entry.kept, total, _coarse(mask, block).tobytes(), block)


def filters_of(weights: dict[str, Entry]) -> Filters | None:
    """Returns the first convolution's filters, channel by channel; nothing without one."""
    for name, entry in weights.items():
        if len(entry.shape) == 4 and min(entry.shape[2:]) > 1:
            height, width = entry.shape[2:]
            each = unpack_tensor(entry).float().reshape(-1, height * width)[:MAX_FILTERS]
            return Filters(
                name.removesuffix(".weight"), height, width, tuple(map(tuple, each.tolist()))
            )
    return None


def _coarse(mask: NDArray[np.bool_], block: int) -> NDArray[np.uint8]:
    """Returns how much of every block is kept, as a byte; 255 means all."""
    rows, columns = (ceil(size / block) for size in mask.shape)
    padded = np.zeros((rows * block, columns * block), np.bool_)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    shares = padded.reshape(rows, block, columns, block).mean((1, 3))
    return np.asarray(255 * np.sqrt(shares / max(shares.max(), 1e-9)), np.uint8)
