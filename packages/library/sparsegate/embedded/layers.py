"""Writes convolutions, matrices, transposed convolutions and recurrent layers in C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from . import kernels as k
from .functions import number
from .nodes import FusedLayer, StatefulRecurrent, TensorScale
from .rows import MOST_BIAS, MOST_SUM, Rounded, StoredRows, factor_and_shift, rounded, rows_of
from .writer import Writer

MOST_TAPS = 128
"""Weights that a convolution unpacks at a time; longer rows are unpacked anew for every line."""
TAP_BYTES = 12
ROWS_BYTES = 52
"""Size of `struct rows` on a processor of 32 bits."""


def kind_of(writer: Writer, node: FusedLayer) -> str:
    """The arithmetic of a layer."""
    if writer.scale(node.inputs[0]) is None:
        return "f32"
    return "i8_f32" if writer.scale(node) is None else "i8"


def layer(writer: Writer, node: n.Node) -> list[str]:
    """A convolution or a matrix."""
    assert isinstance(node, FusedLayer)
    kind, core = kind_of(writer, node), node.core
    name = "conv" if isinstance(core, n.Conv) else "linear"
    _need(writer, name, kind)
    matrix = core.weight.reshape(len(core.weight), -1)
    rows, fields = _fields(writer, node, matrix, kind, first=1 if name == "conv" else 0)
    if isinstance(core, n.Conv):
        fields += _conv_fields(node, core, rows)
    else:
        fields += [str(math.prod(node.shape[:-1])), str(matrix.shape[1]), str(len(matrix))]
    made = writer.structure(name, fields, ROWS_BYTES + 4 * (len(fields) - 1))
    more = f", {writer.scratch(node)}" if isinstance(core, n.Conv) else ""
    source, target = writer.pointer(node.inputs[0]), writer.pointer(node)
    return [f"{name}_{kind}(&{made}, {source}, {target}{more});"]


def _need(writer: Writer, name: str, kind: str) -> None:
    writer.need("rows", k.TYPES)
    writer.need("count_of", k.COUNT_OF)
    writer.need("bounded", k.BOUNDED)
    if kind == "i8":
        writer.need("rescaled", k.RESCALED)
    types, function = {
        "conv": (k.CONV_TYPES, k.CONV),
        "linear": (k.LINEAR_TYPES, k.LINEAR),
        "transposed": (k.TRANSPOSED_TYPES, k.TRANSPOSED),
    }[name]
    writer.need(f"struct {name}", types)
    writer.need(f"{name}_{kind}", k.kernel(function, kind))


def _fields(
    writer: Writer, node: FusedLayer, matrix: NDArray[np.float32], kind: str, *, first: int
) -> tuple[StoredRows, list[str]]:
    """The weights of a layer, and the structure `rows` as text."""
    given = node.core.bias
    if kind == "f32":
        rows = rows_of(matrix, first=first)
        stored = None if given is None else np.ascontiguousarray(given, np.float32)
        return rows, [_rows(writer, rows, stored, None, None, node, None, None)]
    source, target = writer.scale(node.inputs[0]), writer.scale(node)
    assert source is not None
    small = _rounded(node, source)
    unit = small.step * source.step
    total = small.matrix.astype(np.int64)
    numbers = np.rint(_bias(node) / unit).astype(np.int64) - source.zero * total.sum(axis=1)
    if (128 * np.abs(total).sum(axis=1) + np.abs(numbers)).max(initial=0) > MOST_SUM:
        raise ValueError(
            f"the sums of {node.name} may exceed 32 bits; prune it further, or export fp32"
        )
    rows = rows_of(small.matrix, first=first)
    if target is None:
        factor: NDArray[Any] = unit.astype(np.float32)
        shift = None
    else:
        pairs = [factor_and_shift(float(one) / target.step) for one in unit]
        factor = np.array([pair[0] for pair in pairs], np.int32)
        shift = np.array([pair[1] for pair in pairs], np.uint8)
    bias32 = numbers.astype(np.int32)
    return rows, [_rows(writer, rows, bias32, factor, shift, node, source, target)]


def _rows(
    writer: Writer,
    rows: StoredRows,
    bias: NDArray[Any] | None,
    factor: NDArray[Any] | None,
    shift: NDArray[np.uint8] | None,
    node: FusedLayer | None,
    source: TensorScale | None,
    target: TensorScale | None,
) -> str:
    writer.weights += int(np.count_nonzero(rows.value))
    low, high = (node.low, node.high) if node is not None else (-math.inf, math.inf)
    least, most = (_as_int8(low, target), _as_int8(high, target)) if target else (-128, 127)
    zero = 0 if source is None else source.zero
    words = [
        writer.array(rows.step),
        _counts(writer, rows),
        writer.array(rows.value),
        writer.array(bias),
        writer.array(factor),
        writer.array(shift),
        str(rows.size),
        number(low),
        number(high),
        str(least),
        str(most),
        str(zero),
        str(target.zero if target else 0),
    ]
    return f"{{{', '.join(words)}}}"


def _counts(writer: Writer, rows: StoredRows) -> str:
    if rows.count is None:
        return "0"
    writer.most_in_row = max(writer.most_in_row, rows.most)
    return writer.array(rows.count.astype(np.int32), "row_count")


def _as_int8(value: float, scale: TensorScale) -> int:
    if math.isinf(value):
        return 127 if value > 0 else -128
    return max(-128, min(127, round(value / scale.step) + scale.zero))


def _conv_fields(node: FusedLayer, core: n.Conv, rows: StoredRows) -> list[str]:
    outputs, group_inputs, *kernel = core.weight.shape
    source = node.inputs[0].shape
    whole = [out * tile for out, tile in zip(node.shape[2:], node.tile, strict=True)]
    numbers = [
        *(group_inputs, *source[2:]),
        *(outputs, outputs // core.groups),
        *whole,
        *kernel,
        *core.stride,
        *(core.padding[0][0], core.padding[1][0]),
        *core.dilation,
        *node.tile,
        max(1, min(rows.most, MOST_TAPS)),
    ]
    return [str(int(one)) for one in numbers]


def conv_scratch(node: FusedLayer, source: TensorScale | None) -> int:
    """Bytes for a line of sums, a line of largest values, and unpacked weights."""
    matrix = node.core.weight.reshape(len(node.core.weight), -1)
    small = None if source is None else _rounded(node, source)
    rows = rows_of(matrix if small is None else small.matrix, first=1)
    line = node.shape[3] * node.tile[1]
    return 4 * (line + node.shape[3]) + TAP_BYTES * max(1, min(rows.most, MOST_TAPS))


def _rounded(node: FusedLayer, source: TensorScale) -> Rounded:
    """The weights of a layer in 8 bits, in steps large enough for the biases to fit."""
    matrix = node.core.weight.reshape(len(node.core.weight), -1)
    return rounded(matrix, np.abs(_bias(node)) / (source.step * MOST_BIAS))


def _bias(node: FusedLayer) -> NDArray[np.float64]:
    if node.core.bias is None:
        return np.zeros(len(node.core.weight))
    return node.core.bias.astype(np.float64)


def transposed(writer: Writer, node: n.Node) -> list[str]:
    """A transposed convolution, in single precision."""
    assert isinstance(node, n.TransposedConv)
    kind = "f32_i8" if writer.prepared.small_weights else "f32"
    _need(writer, "transposed", kind)
    matrix: NDArray[Any] = node.weight.reshape(len(node.weight), -1)
    source, outputs, kernel = node.inputs[0].shape, node.weight.shape[1], node.weight.shape[2:]
    factor = None
    if kind == "f32_i8":
        by_output = node.weight.reshape(node.groups, -1, outputs, math.prod(kernel))
        flat = by_output.transpose(0, 2, 1, 3).reshape(node.groups * outputs, -1)
        small = rounded(flat)
        back = small.matrix.reshape(node.groups, outputs, -1, math.prod(kernel))
        matrix = back.transpose(0, 2, 1, 3).reshape(matrix.shape)
        factor = small.step.astype(np.float32)
    rows = rows_of(np.ascontiguousarray(matrix), first=1)
    bias = None if node.bias is None else np.ascontiguousarray(node.bias, np.float32)
    numbers = [
        *source[1:],
        *(outputs, source[1] // node.groups),
        *node.shape[2:],
        *kernel,
        *node.stride,
        *node.padding,
        *node.dilation,
    ]
    fields = [_rows(writer, rows, bias, factor, None, None, None, None)]
    fields += [str(int(one)) for one in numbers]
    made = writer.structure("transposed", fields, ROWS_BYTES + 4 * len(numbers))
    reads = writer.pointer(node.inputs[0])
    return [f"transposed_{kind}(&{made}, {reads}, {writer.pointer(node)});"]


def recurrent(writer: Writer, node: n.Node) -> list[str]:
    """A recurrent layer, in single precision."""
    assert isinstance(node, StatefulRecurrent)
    kind = "f32_i8" if writer.prepared.small_weights else "f32"
    _need(writer, "linear", kind)
    gates = node.weight[0].shape[0]
    layers = [
        _matrix(writer, matrix, bias, kind)
        for matrix, bias in zip(node.weight, node.bias, strict=True)
    ]
    steps, inputs = node.inputs[0].shape
    order = (
        f"int32_t t = {steps - 1}; t >= 0; t--"
        if node.backward
        else (f"int32_t t = 0; t < {steps}; t++")
    )
    return [
        *writer.opened(node),
        f"float *in = {writer.scratch(node)}, *back = in + {gates};",
        *([f"float *cell = y + {steps * node.size};"] if node.kind == "lstm" else []),
        *(
            [f"for (int32_t i = 0; i < {node.size}; i++) cell[i] = c[i];"]
            if node.kind == "lstm"
            else []
        ),
        f"for ({order}) {{",
        f"    linear_{kind}(&{layers[0]}, a + t * {inputs}, in);",
        f"    linear_{kind}(&{layers[1]}, b, back);",
        *(f"    {line}" for line in _cell(writer, node)),
        f"    b = y + t * {node.size};",
        "}",
    ]


def _cell(writer: Writer, node: StatefulRecurrent) -> list[str]:
    at = f"y + t * {node.size}"
    if node.kind in ("gru", "lstm"):
        writer.need("sigmoid", k.SIGMOID)
        writer.need(node.kind, k.GRU if node.kind == "gru" else k.LSTM)
        state = "b" if node.kind == "gru" else "cell"
        return [f"{node.kind}({node.size}, in, back, {state}, {at});"]
    value = "tanhf(in[i] + back[i])"
    if node.kind == "rnn_relu":
        value = "bounded(in[i] + back[i], 0.0f, HUGE_VALF)"
    return [f"for (int32_t i = 0; i < {node.size}; i++) ({at})[i] = {value};"]


def _matrix(
    writer: Writer, matrix: NDArray[np.float32], bias: NDArray[np.float32] | None, kind: str
) -> str:
    factor = None
    if kind == "f32_i8":
        small = rounded(matrix)
        stored: NDArray[Any] = small.matrix
        factor = small.step.astype(np.float32)
    else:
        stored = matrix
    rows = rows_of(stored, first=0)
    fields = [_rows(writer, rows, bias, factor, None, None, None, None)]
    fields += ["1", str(matrix.shape[1]), str(len(matrix))]
    return writer.structure("linear", fields, ROWS_BYTES + 12)
