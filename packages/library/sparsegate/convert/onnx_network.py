"""Converts an ONNX file to a network file: its operations become those of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsegate.files import parsed_onnx, read_onnx
from sparsegate_runtime.engine import network as n

from . import onnx_elements, onnx_layers
from .reading import OnnxOperation, OnnxReading, Value
from .written import Converted, written

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

RULES = {**onnx_elements.RULES, **onnx_layers.RULES}
INPUTS = {1: "float32", 7: "int64"}
"""The types that inputs may have, by ONNX's numbers."""
COMPUTED = (
    *("Add", "Cast", "Concat", "Constant", "Div", "Gather", "Identity", "Mul", "Neg", "Pow"),
    *("Reshape", "Shape", "Slice", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
)
"""Operations on constants that are computed now; none makes its result much larger."""


def convert_onnx(path: Path, target: Path) -> Converted:
    """Writes the network of an ONNX file as a network file (.sgn).

    The first dimension of the inputs varies if the file gives it a name in place of a size.

    Raises:
        ValueError: the file is damaged, or has an operation, a size or a type that the engine does
            not have; nothing is written.

    """
    model = parsed_onnx(path)
    weights = {name: _array(tensor) for name, tensor in read_onnx(path).items()}
    return written(
        path,
        target,
        lambda batch: _network(model, weights, batch),
        any_batch=any(_is_any_batch(one) for one in _inputs(model.graph, weights)),
        outputs=[one.name for one in model.graph.output],
    )


def _array(tensor: Any) -> NDArray[Any]:
    single = tensor.float() if tensor.is_floating_point() else tensor
    array: NDArray[Any] = single.numpy()
    return array


def _inputs(graph: GraphProto, weights: dict[str, NDArray[Any]]) -> list[ValueInfoProto]:
    return [one for one in graph.input if one.name not in weights]


def _is_any_batch(given: ValueInfoProto) -> bool:
    dims = given.type.tensor_type.shape.dim
    return bool(dims) and not dims[0].HasField("dim_value")


def _network(model: ModelProto, weights: dict[str, NDArray[Any]], batch: int) -> n.Network:
    """The engine's network for one size of the batch."""
    made = OnnxReading(dict(weights))
    for index, given in enumerate(_inputs(model.graph, weights)):
        made.values[given.name] = made.add(_input(given, index, batch))
    for node in model.graph.node:
        _read(made, model, node)
    missing = [one.name for one in model.graph.output if one.name not in made.values]
    if missing:
        raise ValueError(f"nothing computes its output {missing[0]}")
    outputs = tuple(_as_node(made, made.values[one.name]) for one in model.graph.output)
    return n.Network(n.needed(made.made, outputs), outputs)


def _as_node(made: OnnxReading, value: Value) -> n.Node:
    return value if isinstance(value, n.Node) else made.constant(value)


def _input(given: ValueInfoProto, index: int, batch: int) -> n.Input:
    about = given.type.tensor_type
    if about.elem_type not in INPUTS:
        raise ValueError(f"the input {given.name} is of a type that the engine does not read")
    shape = []
    for place, dim in enumerate(about.shape.dim):
        if not dim.HasField("dim_value") and place:
            raise ValueError(
                f"dimension {place} of the input {given.name} has no size; only the first may vary"
            )
        shape.append(dim.dim_value if dim.HasField("dim_value") else batch)
    if min(shape, default=1) < 1:
        raise ValueError(f"the input {given.name} has the impossible shape {shape}")
    kind = INPUTS[about.elem_type]
    return n.Input(shape=tuple(shape), index=index, kind=kind, name=given.name)


def _read(made: OnnxReading, model: ModelProto, node: Any) -> None:
    """Reads one operation; computes it now if all that it reads is constant."""
    from onnx import helper

    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    operation = OnnxOperation(
        node.op_type, node.name, tuple(node.input), tuple(node.output), attributes
    )
    given = [made.values.get(name) for name in operation.inputs if name]
    if node.op_type == "Shape" and isinstance(given[0], n.Node):
        sizes = np.array(given[0].shape, np.int64)
        made.values[node.output[0]] = sizes[attributes.get("start", 0) : attributes.get("end")]
    elif node.op_type == "Split":
        _split(made, operation)
    elif node.op_type in COMPUTED and all(isinstance(one, np.ndarray) for one in given):
        for name, array in zip(node.output, _computed(model, node, made), strict=True):
            made.values[name] = array
    elif node.op_type in RULES and not node.domain:
        made.values[node.output[0]] = RULES[node.op_type](made, operation)
    else:
        raise operation.refused("the engine does not have it")


def _computed(model: ModelProto, node: Any, made: OnnxReading) -> list[NDArray[Any]]:
    """The results of an operation that reads constants only."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [name for name in dict.fromkeys(node.input) if name]
    inputs = [helper.make_tensor_value_info(name, 1, None) for name in names]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in node.output]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    alone = helper.make_model(graph, opset_imports=model.opset_import)
    found = ReferenceEvaluator(alone).run(None, {name: made.values[name] for name in names})
    return [np.asarray(one) for one in found]


def _split(made: OnnxReading, operation: OnnxOperation) -> None:
    """The parts of a tensor along a dimension."""
    read = made.node(operation)
    dim = int(operation.get("axis", 0)) % len(read.shape)
    sizes = made.numbers(operation, 1, "split")
    if sizes is None:
        each = -(-read.shape[dim] // len(operation.outputs))
        sizes = [each] * len(operation.outputs)
        sizes[-1] = read.shape[dim] - sum(sizes[:-1])
    start = 0
    for name, size in zip(operation.outputs, sizes, strict=True):
        shape = tuple(size if d == dim else own for d, own in enumerate(read.shape))
        cut = n.Slice(inputs=(read,), shape=shape, dimension=dim, start=start, step=1)
        made.values[name] = made.add(cut)
        start += size
