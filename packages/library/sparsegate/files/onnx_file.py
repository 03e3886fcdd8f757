"""Reads the weights in an ONNX file, dense and sparse ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsegate_runtime.files import check_limit

from .tensors import INTEGERS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto

MISSING = "ONNX files need the package onnx, which is not installed; pip install 'sparsegate[onnx]'"
TYPES = {
    "FLOAT": torch.float32,
    "DOUBLE": torch.float64,
    "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16,
    "FLOAT8E4M3FN": torch.float8_e4m3fn,
    "FLOAT8E5M2": torch.float8_e5m2,
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "INT8": torch.int8,
    "UINT16": torch.uint16,
    "INT16": torch.int16,
    "UINT32": torch.uint32,
    "INT32": torch.int32,
    "UINT64": torch.uint64,
    "INT64": torch.int64,
}
"""The torch type of every element type of ONNX that is read."""


def read_onnx(path: Path, *, limit: int | None = None) -> dict[str, Tensor]:
    """The initializers in an ONNX file by their names; sparse ones become dense tensors.

    Args:
        path: the file; weights in other files (external data) are not read.
        limit: the most bytes to allocate; the default is that of `sparsegate.load`.

    Raises:
        ValueError: the file is damaged, too large, or holds tensors of other types.
    """
    graph = parsed_onnx(path).graph
    dense, sparse = list(graph.initializer), list(graph.sparse_initializer)
    wanted = sum(_num_bytes(path, each.data_type, each.dims, each.name) for each in dense)
    wanted += sum(
        _num_bytes(path, each.values.data_type, each.dims, each.values.name) for each in sparse
    )
    check_limit(wanted, limit, file_bytes=path.stat().st_size)
    found = {each.name: _dense(path, each) for each in dense}
    return found | {each.values.name: _sparse(path, each) for each in sparse}


def parsed_onnx(path: Path) -> ModelProto:
    """The model in an ONNX file; raises ValueError if it is damaged."""
    try:
        import onnx
    except ImportError as error:
        raise ValueError(MISSING) from error
    try:
        model = onnx.load_model(str(path), load_external_data=False)
        _check_names(model.graph)
    except Exception as error:  # protobuf raises whatever it comes upon
        raise ValueError(f"{path} is not an ONNX file, or is damaged") from error
    return model


def _check_names(graph: GraphProto) -> None:
    """Raises TypeError if a name is not UTF-8: protobuf gives such names as bytes."""
    tensors = [*graph.initializer, *(each.values for each in graph.sparse_initializer)]
    operations = [name for each in graph.node for name in (*each.input, *each.output)]
    names = [each.name for each in tensors] + operations
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is not UTF-8")


def _type(path: Path, number: int, name: str) -> torch.dtype:
    from onnx import TensorProto

    known = TensorProto.DataType.items()
    word = next((word for word, value in known if value == number), str(number))
    if word not in TYPES:
        raise ValueError(f"{path}: {name} holds elements of {word}; expected {', '.join(TYPES)}")
    return TYPES[word]


def _num_bytes(path: Path, data_type: int, dims: object, name: str) -> int:
    shape = [int(size) for size in dims]  # type: ignore[attr-defined]
    if min(shape, default=0) < 0:
        raise ValueError(f"{path}: {name} has the impossible shape {shape}")
    return math.prod(shape) * _type(path, data_type, name).itemsize


def _dense(path: Path, tensor: TensorProto) -> Tensor:
    dtype = _type(path, tensor.data_type, tensor.name)
    return _tensor(_array(path, tensor, tensor.name), dtype).reshape(tuple(tensor.dims))


def _sparse(path: Path, tensor: SparseTensorProto) -> Tensor:
    name, shape = tensor.values.name, tuple(tensor.dims)
    values = _array(path, tensor.values, name)
    indices = _array(path, tensor.indices, f"the indices of {name}")
    places = _places(indices, shape)
    total = math.prod(shape)
    if (
        places is None
        or values.shape != places.shape
        or (places.size and not 0 <= places[0] <= places[-1] < total)
        or (np.diff(places) <= 0).any()
    ):
        raise ValueError(
            f"{path}: {name} is damaged: expected ascending indices within {shape}, one for each "
            f"of {values.size} values"
        )
    dtype = _type(path, tensor.values.data_type, name)
    found = torch.zeros(total, dtype=INTEGERS[dtype.itemsize])
    found[torch.from_numpy(places)] = _tensor(values, dtype).view(found.dtype)
    return found.view(dtype).reshape(shape)


def _places(indices: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
    """The place of each value in the flat tensor; None for indices of another form."""
    if indices.dtype != np.int64 or indices.ndim not in (1, 2):
        return None
    places = indices.astype(np.int64)
    if indices.ndim == 1:
        return places
    sizes = np.array(shape, np.int64)
    if places.shape[1] != len(shape) or (places < 0).any() or (places >= sizes).any():
        return None
    steps = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
    return np.asarray(places @ steps, np.int64)


def _array(path: Path, tensor: TensorProto, name: str) -> NDArray[np.generic]:
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError(
            f"{path}: {name} is in another file (external data), which is not read; "
            "save the model as one file"
        )
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:
        raise ValueError(f"{path}: {name} is damaged: its data does not fit its shape") from error


def _tensor(array: NDArray[np.generic], dtype: torch.dtype) -> Tensor:
    """The bits of an array as a tensor, since numpy has no types for some."""
    if array.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"expected elements of {dtype}, got {array.dtype}")
    bits = np.ascontiguousarray(array).reshape(-1).view(f"i{dtype.itemsize}").copy()
    return torch.from_numpy(bits).view(dtype)
