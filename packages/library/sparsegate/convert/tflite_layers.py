"""Rules for TensorFlow Lite operations with weights, for pools, and for interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsegate_runtime.engine import network as n

from .tflite_reading import TfliteOperation, TfliteReading, TfliteRule, is_given

PADDINGS = {0: "SAME_UPPER", 1: "VALID"}


def _window(operation: TfliteOperation) -> dict[str, Any]:
    """The attributes of a window in ONNX's terms."""
    padding = operation.get("Padding")
    if padding not in PADDINGS:
        raise operation.refused("its padding is unknown")
    return {
        "auto_pad": PADDINGS[padding],
        "strides": [operation.get("StrideH", 1), operation.get("StrideW", 1)],
    }


def _dilations(operation: TfliteOperation) -> list[int]:
    return [operation.get("DilationHFactor", 1), operation.get("DilationWFactor", 1)]


def _weight(made: TfliteReading, operation: TfliteOperation, order: tuple[int, ...]) -> Any:
    """The constant kernel, with its dimensions in another order."""
    weight = made.array(operation, 1)
    if weight.ndim != len(order):
        raise operation.refused(f"its weight has {weight.ndim} dimensions; expected {len(order)}")
    return np.ascontiguousarray(weight.transpose(order), np.float32)


def _bias(made: TfliteReading, operation: TfliteOperation, index: int) -> list[str]:
    return [made.name(operation, index)] if is_given(operation, index) else []


def _convolution(order: tuple[int, ...]) -> TfliteRule:
    """A rule for kernels whose dimensions are [outputs, inputs, height, width] in this order."""

    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        read, weight = made.name(operation, 0, images=True), _weight(made, operation, order)
        channels = made.onnx.values[read].shape[1]
        if not weight.shape[1] or channels % weight.shape[1]:
            raise operation.refused("its weight does not fit its input")
        out = made.run(
            "Conv",
            operation,
            [read, made.named(weight), *_bias(made, operation, 2)],
            group=channels // weight.shape[1],
            dilations=_dilations(operation),
            **_window(operation),
        )
        made.keep(operation, out, images=True)

    return rule


def _transposed(made: TfliteReading, operation: TfliteOperation) -> None:
    """A transposed convolution; what exceeds the stated shape is cut off on both sides."""
    weight = _weight(made, operation, (3, 0, 1, 2))
    wanted, window = made.numbers(operation, 0), _window(operation)
    names = [made.name(operation, 2, images=True), made.named(weight), *_bias(made, operation, 3)]
    out = made.run("ConvTranspose", operation, names, strides=window["strides"])
    if not isinstance(out, n.Node) or len(wanted) != len(out.shape):
        raise operation.refused("its shape is impossible")
    more = [size - need for size, need in zip(out.shape[2:], wanted[1:3], strict=True)]
    starts = [max(0, one) // 2 for one in more]
    ends = [start + need for start, need in zip(starts, wanted[1:3], strict=True)]
    pads = [0, 0, 0, 0, 0, 0, *(max(0, -one) for one in more)]
    if any(pads):
        out = made.run("Pad", operation, [made.named(out)], pads=pads)
    cut = {"starts": starts, "ends": ends, "axes": [2, 3], "steps": [1, 1]}
    out = made.run("Slice", operation, [made.named(out)], **cut)
    made.keep(operation, out, images=True)


def _fully_connected(made: TfliteReading, operation: TfliteOperation) -> None:
    weight = _weight(made, operation, (0, 1))
    if operation.get("WeightsFormat"):
        raise operation.refused("its weight is shuffled")
    name = made.name(operation, 0)
    if not operation.get("KeepNumDims"):
        name = made.named(made.run("Reshape", operation, [name], shape=[-1, weight.shape[1]]))
    names = [name, made.named(weight), *_bias(made, operation, 2)]
    made.keep(operation, made.run("Gemm", operation, names, transB=1))


def _product(made: TfliteReading, operation: TfliteOperation) -> None:
    names = []
    for index, option in enumerate(("AdjX", "AdjY")):
        name = made.name(operation, index)
        if operation.get(option):
            rank = len(made.onnx.values[name].shape)
            perm = [*range(rank - 2), rank - 1, rank - 2]
            node = made.onnx.node(operation.as_onnx([name], {}))
            name = made.named(made.onnx.permute(node, perm))
        names.append(name)
    made.keep(operation, made.run("MatMul", operation, names))


def _pool(kind: str) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        size = [operation.get("FilterHeight", 1), operation.get("FilterWidth", 1)]
        names = [made.name(operation, 0, images=True)]
        out = made.run(kind, operation, names, kernel_shape=size, **_window(operation))
        made.keep(operation, out, images=True)

    return rule


def _resize(mode: str) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        name = made.name(operation, 0, images=True)
        sizes = np.array([*made.onnx.values[name].shape[:2], *made.numbers(operation, 1)])
        rounding = "floor"
        how = "asymmetric"
        if operation.get("AlignCorners") or operation.get("HalfPixelCenters"):
            how = "align_corners" if operation.get("AlignCorners") else "half_pixel"
            rounding = "round_prefer_ceil"
        names = [name, "", "", made.named(sizes)]
        words = {"coordinate_transformation_mode": how, "nearest_mode": rounding}
        made.keep(operation, made.run("Resize", operation, names, mode=mode, **words), images=True)

    return rule


def _embedding(table: int, ids: int) -> TfliteRule:
    def rule(made: TfliteReading, operation: TfliteOperation) -> None:
        if operation.get("BatchDims") if hasattr(operation.options, "BatchDims") else 0:
            raise operation.refused("it has dimensions of a batch")
        axis = operation.get("Axis") if hasattr(operation.options, "Axis") else 0
        names = [made.name(operation, table), made.name(operation, ids)]
        made.keep(operation, made.run("Gather", operation, names, axis=axis))

    return rule


RULES: dict[str, TfliteRule] = {
    "CONV_2D": _convolution((0, 3, 1, 2)),
    "DEPTHWISE_CONV_2D": _convolution((3, 0, 1, 2)),
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _product,
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "GATHER": _embedding(0, 1),
    "EMBEDDING_LOOKUP": _embedding(1, 0),
}
