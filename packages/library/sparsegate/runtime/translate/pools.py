"""Rules for pools and interpolation of images."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sparsegate_runtime.engine import network as n

from .call import Call
from .layers import both
from .translator import Rule, Translator


def _source(made: Translator, call: Call) -> n.Node | None:
    source = call.get("self", call.get("input"))
    return made.value(source) if made.floats(source) else None


def _pool(largest: bool, dims: int) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        read = _source(made, call)
        if read is None or len(read.shape) != dims + 2:
            return None
        kernel = both(call["kernel_size"], dims, 1)
        pool = n.Pool(
            inputs=(made.reshape(read, _as_images(read.shape)),),
            shape=_as_images(call.shape),
            largest=largest,
            kernel=kernel,
            stride=both(call["stride"] or call["kernel_size"], dims, 1),
            padding=both(call["padding"], dims, 0),
            dilation=both(call.get("dilation", 1), dims, 1),
            counts_padding=bool(call.get("count_include_pad", True)),
            divisor=call.get("divisor_override"),
        )
        if call.get("ceil_mode") and not _is_exact(pool):
            if not largest:
                return None
            pool = _padded(made, pool)
        return made.reshape(made.add(pool), call.shape)

    return rule


def _padded(made: Translator, pool: n.Pool) -> n.Pool:
    """The same maxima, with what no window may choose before and after the images."""
    (read,) = pool.inputs
    sides = [(0, 0), (0, 0)]
    for axis in (0, 1):
        reach = pool.dilation[axis] * (pool.kernel[axis] - 1) + 1
        wanted = (pool.shape[2 + axis] - 1) * pool.stride[axis] + reach
        before = pool.padding[axis]
        sides.append((before, wanted - read.shape[2 + axis] - before))
    shape = tuple(size + sum(side) for size, side in zip(read.shape, sides, strict=True))
    wide = n.Pad(inputs=(read,), shape=shape, sides=tuple(sides), value=-math.inf)
    return replace(pool, inputs=(made.add(wide),), padding=(0, 0))


def _first(rule: Rule) -> Rule:
    """The values of an operator that gives their indices, too."""
    return lambda made, call: rule(made, call) if call["index"] == 0 else None


def _is_exact(pool: n.Pool) -> bool:
    """Whether rounding up gives as many windows as rounding down."""
    size = pool.inputs[0].shape
    return all(
        pool.shape[2 + axis]
        == (
            size[2 + axis]
            + 2 * pool.padding[axis]
            - pool.dilation[axis] * (pool.kernel[axis] - 1)
            - 1
        )
        // pool.stride[axis]
        + 1
        for axis in (0, 1)
    )


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def _adaptive(largest: bool) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        read = _source(made, call)
        if read is None or read.shape == call.shape:
            return read
        wanted = call["output_size"]
        dims = len(wanted) if isinstance(wanted, list | tuple) else 1
        if math.prod(call.shape[-dims:]) == 1:
            over = tuple(range(len(call.shape) - dims, len(call.shape)))
            function = "amax" if largest else "mean"
            return made.add(
                n.Reduce(inputs=(read,), shape=call.shape, function=function, dimensions=over)
            )
        if dims > 2 or len(call.shape) != dims + 2:
            return None
        source, target = _as_images(read.shape), _as_images(call.shape)
        if any(a % b for a, b in zip(source[2:], target[2:], strict=True)):
            return None
        steps = source[2] // target[2], source[3] // target[3]
        pool = n.Pool(
            inputs=(made.reshape(read, source),),
            shape=target,
            largest=largest,
            kernel=steps,
            stride=steps,
            padding=(0, 0),
            dilation=(1, 1),
        )
        return made.reshape(made.add(pool), call.shape)

    return rule


def _upsample(mode: str) -> Rule:
    def rule(made: Translator, call: Call) -> n.Node | None:
        read = _source(made, call)
        if read is None or len(call.shape) not in (3, 4):
            return None
        source, target = _as_images(read.shape), _as_images(call.shape)
        factors = call.get("scale_factors") or [call.get("scales_h"), call.get("scales_w")]
        given = (
            factors if len(call.shape) == 4 else [None, (call.get("scale_factors") or [None])[0]]
        )
        align = bool(call.get("align_corners"))
        axes = [
            _sources(source[2 + axis], target[2 + axis], given[axis], mode, align)
            for axis in (0, 1)
        ]
        out = n.Upsample(
            inputs=(made.reshape(read, source),), shape=target, lines=axes[0], pixels=axes[1]
        )
        return made.reshape(made.add(out), call.shape)

    return rule


def _sources(size: int, wanted: int, factor: float | None, mode: str, align: bool) -> Any:
    """The two source positions of every output position, and the weight of the second."""
    at = np.arange(wanted, dtype=np.float64)
    ratio = 1 / factor if factor else size / wanted
    if mode.startswith("nearest"):
        center = 0.5 if mode == "nearest-exact" else 0.0
        first = np.minimum(((at + center) * np.float32(ratio)).astype(np.int64), size - 1)
        return first.astype(np.int32), first.astype(np.int32), np.zeros(wanted, np.float32)
    if align:
        where = at * ((size - 1) / (wanted - 1) if wanted > 1 else 0)
    else:
        where = np.maximum((at + 0.5) * ratio - 0.5, 0)
    first = np.minimum(where.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    weight = (where - first).astype(np.float32)
    return first.astype(np.int32), second.astype(np.int32), weight


RULES: dict[str, Rule] = {
    **{f"max_pool{dims}d": _pool(True, dims) for dims in (1, 2)},
    **{f"avg_pool{dims}d": _pool(False, dims) for dims in (1, 2)},
    **{f"max_pool{dims}d_with_indices.item": _first(_pool(True, dims)) for dims in (1, 2)},
    **{f"adaptive_avg_pool{dims}d": _adaptive(False) for dims in (1, 2)},
    **{f"adaptive_max_pool{dims}d.item": _first(_adaptive(True)) for dims in (1, 2)},
    **{f"_upsample_nearest_exact{dims}d": _upsample("nearest-exact") for dims in (1, 2)},
    **{f"upsample_nearest{dims}d": _upsample("nearest") for dims in (1, 2)},
    **dict.fromkeys(("upsample_bilinear2d", "upsample_linear1d"), _upsample("linear")),
}
