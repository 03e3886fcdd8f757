"""Writes what moves elements in C: copies, joins, padding, interpolation, embeddings, types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from . import kernels as k
from .functions import number
from .loops import broadcast_strides, dense_strides, nest
from .nodes import TensorScale
from .rows import rounded
from .writer import Writer


def copy(writer: Writer, node: n.Node) -> list[str]:
    """A tensor with elements of another one."""
    (read,) = node.inputs
    own = dense_strides(read.shape)
    if isinstance(node, n.Permute):
        return _copied(writer, node, [own[dim] for dim in node.dimensions], 0)
    if isinstance(node, n.Expand):
        return _copied(writer, node, broadcast_strides(read.shape, node.shape), 0)
    if isinstance(node, n.Slice):
        steps = [step * (node.step if dim == node.dimension else 1) for dim, step in enumerate(own)]
        return _copied(writer, node, steps, node.start * own[node.dimension])
    return _copied(writer, node, dense_strides(node.shape), 0)


def _copied(writer: Writer, node: n.Node, steps: Sequence[int], start: int) -> list[str]:
    loops = nest(
        node.shape,
        [dense_strides(node.shape), steps],
        lambda at: [f"y[{at[0]}] = a[{_plus(at[1], start)}];"],
    )
    return [*writer.opened(node), *loops]


def _plus(index: str, start: int) -> str:
    return index if not start else f"{index} + {start}"


def join(writer: Writer, node: n.Node) -> list[str]:
    """Tensors one after another along a dimension."""
    assert isinstance(node, n.Join)
    out = dense_strides(node.shape)
    start, lines = 0, [f"{writer.c_type(node)} *y = {writer.pointer(node)};"]
    for read in node.inputs:
        value = _rescaled(writer, read, node)
        shift = start * out[node.dimension]
        loops = nest(
            read.shape,
            [out, dense_strides(read.shape)],
            lambda at, shift=shift, value=value: [  # type: ignore[misc]
                f"y[{_plus(at[0], shift)}] = {value.format(at[1])};"
            ],
        )
        head = f"const {writer.c_type(read)} *a = {writer.pointer(read)};"
        lines += ["{", f"    {head}", *(f"    {line}" for line in loops), "}"]
        start += read.shape[node.dimension]
    return lines


def _rescaled(writer: Writer, read: n.Node, node: n.Node) -> str:
    """An element in the scale of the result."""
    source, target = writer.scale(read), writer.scale(node)
    if source is None or target is None or source == target:
        return "a[{}]"
    table = writer.array(_converted(source, target))
    return f"{table}[a[{{}}] + 128]"


def _converted(source: TensorScale, target: TensorScale) -> NDArray[np.int8]:
    """Each of the 256 values in another scale."""
    values = source.step * (np.arange(-128, 128) - source.zero)
    return as_int8(values, target)


def as_int8(values: NDArray[np.floating[Any]], scale: TensorScale) -> NDArray[np.int8]:
    """Numbers in 8 bits.

    >>> as_int8(np.array([0.0, 1.0, 99.0]), TensorScale(0.5, -10))
    array([-10,  -8, 127], dtype=int8)
    """
    steps = np.nan_to_num(values / scale.step, nan=0.0, posinf=1e9, neginf=-1e9)
    whole = np.rint(np.clip(steps, -1e9, 1e9)) + scale.zero
    small: NDArray[np.int8] = np.clip(whole, -128, 127).astype(np.int8)
    return small


def pad(writer: Writer, node: n.Node) -> list[str]:
    """More positions before and after; negative numbers leave some out."""
    assert isinstance(node, n.Pad)
    (read,) = node.inputs
    scale = writer.scale(node)
    filler = number(node.value)
    if scale is not None:
        filler = str(int(as_int8(np.array([node.value]), scale)[0]))
    fill = nest(node.shape, [dense_strides(node.shape)], lambda at: [f"y[{at[0]}] = {filler};"])
    shape = [
        size - max(0, -before) - max(0, -after)
        for size, (before, after) in zip(read.shape, node.sides, strict=True)
    ]
    own, out = dense_strides(read.shape), dense_strides(node.shape)
    first = sum(max(0, -before) * own[dim] for dim, (before, _) in enumerate(node.sides))
    into = sum(max(0, before) * out[dim] for dim, (before, _) in enumerate(node.sides))
    copies = nest(
        shape, [out, own], lambda at: [f"y[{_plus(at[0], into)}] = a[{_plus(at[1], first)}];"]
    )
    return [*writer.opened(node), *fill, *copies]


def upsample(writer: Writer, node: n.Node) -> list[str]:
    """Images interpolated to another size."""
    assert isinstance(node, n.Upsample)
    (read,) = node.inputs
    height, width = read.shape[2:]
    tables = []
    for first, second, weight in (node.lines, node.pixels):
        small = [places.astype(np.int16) for places in (first, second)]
        tables.append([*map(writer.array, small), writer.array(weight.astype(np.float32))])
    (top, bottom, down), (left, right, across) = tables
    planes = node.shape[0] * node.shape[1]
    value = "u + v * (w - u)"
    if writer.scale(node) is not None:
        writer.need("to_int8", k.TO_INT8)
        value = f"to_int8({value})"
    nearest = not node.lines[2].any() and not node.pixels[2].any()
    if nearest:
        inside = [f"*y++ = a[{top}[i] * {width} + {left}[j]];"]
    else:
        inside = [
            f"const {writer.c_type(read)} *above = a + {top}[i] * {width};",
            f"const {writer.c_type(read)} *below = a + {bottom}[i] * {width};",
            f"const int32_t l = {left}[j], r = {right}[j];",
            f"const float v = {down}[i], x = {across}[j];",
            "const float u = (float)above[l] + x * (float)(above[r] - above[l]);",
            "const float w = (float)below[l] + x * (float)(below[r] - below[l]);",
            f"*y++ = {value};",
        ]
    return [
        *writer.opened(node),
        f"for (int32_t p = 0; p < {planes}; p++, a += {height * width})",
        f"for (int32_t i = 0; i < {node.shape[2]}; i++)",
        f"for (int32_t j = 0; j < {node.shape[3]}; j++) {{",
        *(f"    {line}" for line in inside),
        "}",
    ]


def embedding(writer: Writer, node: n.Node) -> list[str]:
    """Rows of a table; an index outside of the table reads the first row."""
    assert isinstance(node, n.Embedding)
    rows, size = node.table.shape
    count = int(np.prod(node.inputs[0].shape))
    if writer.prepared.small_weights:
        small = rounded(node.table)
        table = writer.array(small.matrix)
        value = f"{writer.array(small.step.astype(np.float32))}[row] * (float){table}"
    else:
        table = value = writer.array(np.ascontiguousarray(node.table, np.float32))
    writer.weights += int(np.count_nonzero(node.table))
    return [
        *writer.opened(node),
        f"for (int32_t i = 0; i < {count}; i++) {{",
        f"    const int32_t row = a[i] < 0 || a[i] >= {rows} ? 0 : (int32_t)a[i];",
        f"    for (int32_t j = 0; j < {size}; j++) *y++ = {value}[row * {size} + j];",
        "}",
    ]


def to_int8(writer: Writer, node: n.Node) -> list[str]:
    """Single precision to 8 bits."""
    scale = writer.scale(node)
    assert scale is not None
    writer.need("to_int8", k.TO_INT8)
    zero, inverse = number(float(scale.zero)), number(1 / scale.step)
    return _each(writer, node, f"to_int8(a[i] * {inverse} + {zero})")


def to_float(writer: Writer, node: n.Node) -> list[str]:
    """8 bits to single precision."""
    scale = writer.scale(node.inputs[0])
    assert scale is not None
    return _each(writer, node, f"{number(scale.step)} * (float)(a[i] - {scale.zero})")


def _each(writer: Writer, node: n.Node, value: str) -> list[str]:
    count = int(np.prod(node.shape))
    return [*writer.opened(node), f"for (int32_t i = 0; i < {count}; i++) y[i] = {value};"]
