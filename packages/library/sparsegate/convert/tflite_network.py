"""Converts a TensorFlow Lite file to a network file: its operations become those of the engine."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsegate.files import parsed_tflite
from sparsegate_runtime.engine import network as n

from . import tflite_elements, tflite_layers
from .tflite_reading import TfliteOperation, TfliteReading
from .written import Converted, written

RULES = {**tflite_elements.RULES, **tflite_layers.RULES}
KINDS = {0: "float32", 2: "int64", 4: "int64"}
"""The types that inputs may have, by the numbers of the schema; 32-bit integers become 64-bit."""
INTEGERS = (2, 4)
CUSTOM = 32
"""The number of an operation that is not part of TensorFlow Lite."""
MOST_DIMS = 6


def convert_tflite(path: Path, target: Path) -> Converted:
    """Writes the network of a TensorFlow Lite file as a network file (.sgn).

    Images keep their channels last in inputs and outputs. The first dimension of the inputs varies
    if the file says so. Weights of 8 or 16 bits become float32.

    Raises:
        ValueError: the file is damaged, or has an operation, a size or a type that the engine does
            not have; nothing is written.

    """
    model = parsed_tflite(path)
    graph = model.tables.Subgraphs(0)
    constants = {
        one.place[1]: _array(graph.Tensors(one.place[1]), tensor)
        for one, tensor in model.constants
        if one.place[0] == 0
    }
    try:
        operations = _operations(model.tables, graph)
        inputs = [int(graph.Inputs(k)) for k in range(graph.InputsLength())]
        outputs = [int(graph.Outputs(k)) for k in range(graph.OutputsLength())]
        any_batch = any(_is_any_batch(graph.Tensors(one)) for one in inputs)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # the schema's classes raise whatever they come upon
        raise ValueError(f"{path} is damaged: its operations point outside of it") from error

    def network(batch: int) -> n.Network:
        return _network(graph, operations, constants, inputs, outputs, batch)

    names = [_name(graph.Tensors(one), one) for one in outputs]
    return written(path, target, network, any_batch=any_batch, outputs=names)


def _array(tensor: Any, values: Tensor) -> NDArray[Any]:
    """A constant as the operations read it: floats, or integers without a scale."""
    quantization = tensor.Quantization()
    if values.is_floating_point():
        return np.asarray(values.float().numpy())
    if quantization is None or not quantization.ScaleLength() or values.dtype == torch.int32:
        return np.asarray(values.numpy())
    scales, zeros = quantization.ScaleAsNumpy(), np.zeros(1, np.float32)
    if quantization.ZeroPointLength():
        zeros = quantization.ZeroPointAsNumpy().astype(np.float32)
    shape = [1] * values.ndim
    if len(scales) > 1:
        shape[quantization.QuantizedDimension()] = -1
    whole = values.numpy().astype(np.float32) - zeros.reshape(shape if len(zeros) > 1 else -1)
    return np.asarray(whole * scales.reshape(shape), np.float32)


def _operations(model: Any, graph: Any) -> list[TfliteOperation]:
    found = []
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        outputs = tuple(int(operator.Outputs(k)) for k in range(operator.OutputsLength()))
        if not outputs:
            raise ValueError(f"operation {index} has no output")
        found.append(
            TfliteOperation(
                _kind(code),
                _name(graph.Tensors(outputs[0]), outputs[0]),
                tuple(int(operator.Inputs(k)) for k in range(operator.InputsLength())),
                outputs,
                _options(operator),
            )
        )
    return found


def _kind(code: Any) -> str:
    """The name of an operation."""
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number == CUSTOM:
        return f"the custom operation {(code.CustomCode() or b'?').decode('utf-8', 'replace')}"
    return _names("BuiltinOperator").get(number, f"the unknown operation {number}")


@functools.cache
def _names(enumeration: str) -> dict[int, str]:
    import tflite

    words = vars(getattr(tflite, enumeration))
    return {number: word for word, number in words.items() if isinstance(number, int)}


def _options(operator: Any) -> Any:
    import tflite

    table, kind = (
        operator.BuiltinOptions(),
        _names("BuiltinOptions").get(operator.BuiltinOptionsType()),
    )
    if table is None or kind is None or not hasattr(tflite, kind):
        return None
    options = getattr(tflite, kind)()
    options.Init(table.Bytes, table.Pos)
    return options


def _is_any_batch(tensor: Any) -> bool:
    return tensor.ShapeSignatureLength() > 0 and int(tensor.ShapeSignature(0)) < 0


def _name(tensor: Any, index: int) -> str:
    return (tensor.Name() or b"").decode("utf-8", "replace") or f"tensor{index}"


def _network(
    graph: Any,
    operations: list[TfliteOperation],
    constants: dict[int, NDArray[Any]],
    inputs: list[int],
    outputs: list[int],
    batch: int,
) -> n.Network:
    """The engine's network for one size of the batch."""
    made = TfliteReading()
    for number, array in constants.items():
        made.put(number, array)
    for index, number in enumerate(inputs):
        made.put(number, made.onnx.add(_input(graph.Tensors(number), number, index, batch)))
    for operation in operations:
        _check_types(graph, operation)
        if operation.kind not in RULES:
            raise operation.refused("the engine does not have it")
        RULES[operation.kind](made, operation)
    result = TfliteOperation("an output", "", tuple(outputs), (), None)
    nodes = tuple(
        made.onnx.node(result.as_onnx([made.name(result, index)], {}))
        for index in range(len(outputs))
    )
    return n.Network(n.needed(made.onnx.made, nodes), nodes)


def _input(tensor: Any, number: int, index: int, batch: int) -> n.Input:
    name, kind = _name(tensor, number), KINDS.get(tensor.Type())
    shape = [int(tensor.Shape(dim)) for dim in range(min(MOST_DIMS, tensor.ShapeLength()))]
    if kind is None:
        raise ValueError(
            f"the input {name} is of type {tensor.Type()}; only networks of float32 are converted"
        )
    if _is_any_batch(tensor) and shape:
        shape[0] = batch
    if min(shape, default=1) < 1:
        raise ValueError(f"the input {name} has the impossible shape {shape}")
    return n.Input(shape=tuple(shape), index=index, kind=kind, name=name)


def _check_types(graph: Any, operation: TfliteOperation) -> None:
    """Refuses operations on 8-bit activations."""
    kinds = [graph.Tensors(one).Type() for one in operation.outputs]
    if any(kind != 0 and kind not in INTEGERS for kind in kinds) and operation.kind != "DENSIFY":
        raise operation.refused(
            f"it computes numbers of type {max(kinds)}; only networks of float32 are converted"
        )
