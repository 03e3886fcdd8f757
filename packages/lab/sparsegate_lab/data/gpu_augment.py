"""Augments and normalizes photographs on a GPU with two kernels instead of a pass per change."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from jaxtyping import Float, Num, UInt8
from torch import Tensor

from sparsegate.triton_call import Launch

from .augment import Augment, Flip, Jitter, RandomCrop, Shift
from .crop import Fit

BLOCK = 512
HAS_TRITON = find_spec("triton") is not None
MODULE = "sparsegate_lab.data.triton_view_kernels"


class Changes(NamedTuple):
    """The augments that the kernels apply, by index among a run's augments, and their settings."""

    flip: int | None
    crop: int
    jitter: int | None
    smallest: float
    size: tuple[int, int]
    means: tuple[float, ...]
    spreads: tuple[float, ...]


@cache
def changes_of(augments: tuple[Augment, ...], view: Callable[[Tensor], Tensor]) -> Changes | None:
    """The changes if the kernels can apply them (flip, crop, jitter, in this order), else None."""
    indices = [index for index, augment in enumerate(augments) if augment != Shift(0)]
    kinds = [type(augments[index]) for index in indices]
    at = dict(zip(kinds, indices, strict=True))
    if kinds != [kind for kind in (Flip, RandomCrop, Jitter) if kind in at] or RandomCrop not in at:
        return None
    crop = augments[at[RandomCrop]]
    if not (isinstance(crop, RandomCrop) and isinstance(view, Fit) and view.size == crop.size):
        return None
    means, spreads = _three(view.normalise.mean), _three(view.normalise.spread)
    return Changes(
        at.get(Flip), at[RandomCrop], at.get(Jitter), crop.smallest, crop.size, means, spreads
    )


def can_change_fast(images: Num[Tensor, "image channel height width"]) -> bool:
    """Whether the kernels can take these images."""
    if not (HAS_TRITON and images.is_cuda):
        return False
    is_photograph = images.shape[1] == 3 and images.dtype == torch.uint8 and images.is_contiguous()
    return is_photograph and images.device.index == torch.cuda.current_device()


def changed_in_one_pass(
    images: UInt8[Tensor, "image 3 height width"],
    drawn: tuple[Num[Tensor, "image _"], ...],
    changes: Changes,
) -> Float[Tensor, "image 3 rows columns"]:
    """The network's input: what the augments and the view give, up to rounding."""
    count, _, height, width = images.shape
    measure, make = _launches(count, height, width, changes, images.device)
    crops, blocks = drawn[changes.crop], make.grid[1]
    mirrors = crops if changes.flip is None else drawn[changes.flip]
    out = images.new_empty((count, 3, *changes.size), dtype=torch.float32)
    sums = light = crops
    if changes.jitter is not None:
        light, sums = drawn[changes.jitter], crops.new_empty((count, blocks))
        measure(images, crops, mirrors, sums, changes.smallest)
    make(images, crops, mirrors, sums, light, out, changes.smallest, changes.means, changes.spreads)
    return out


@cache
def _launches(
    count: int, height: int, width: int, changes: Changes, _: torch.device
) -> tuple[Launch, Launch]:
    """The kernels that measure brightness and that make the images, for batches of this size."""
    rows, columns = changes.size
    # A new pixel depends on the old pixels within one pixel, or within its own width if larger.
    taps = math.ceil(2 * max(1.0, height / rows, width / columns))
    blocks = -(-rows * columns // BLOCK)
    sizes = {
        "HEIGHT": height,
        "WIDTH": width,
        "ROWS": rows,
        "COLUMNS": columns,
        "TAPS": taps,
        "BLOCK": BLOCK,
    }
    first = {"MIRROR": changes.flip is not None} | sizes
    last = {"LIGHT": changes.jitter is not None, "BLOCKS": 1 << (blocks - 1).bit_length()}
    return (
        Launch(MODULE, "brightness_kernel", (count, blocks), first),
        Launch(MODULE, "view_kernel", (count, blocks), first | last),
    )


def _three(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,) * 3
