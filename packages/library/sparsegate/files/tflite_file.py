"""Reads the weights in a TensorFlow Lite file, dense and sparse ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsegate_runtime.files import check_limit

MISSING = (
    "TensorFlow Lite files need the package tflite, which is not installed; "
    "pip install 'sparsegate[tflite]'"
)
IDENTIFIER = b"TFL3"
TYPES = {
    0: np.float32,
    1: np.float16,
    2: np.int32,
    3: np.uint8,
    4: np.int64,
    6: np.bool_,
    7: np.int16,
    9: np.int8,
    10: np.float64,
    12: np.uint64,
    15: np.uint32,
    16: np.uint16,
}
"""The numpy type of every element type that is read, by its number in the schema."""
CSR = 1
"""The format of a dimension whose positions are listed; others are dense."""


def read_tflite(path: Path, *, limit: int | None = None) -> dict[str, Tensor]:
    """The constant tensors in a TensorFlow Lite file by their names; sparse ones become dense.

    Tensors keep their type: 8-bit weights stay integers, without their scales.

    Args:
        path: the file.
        limit: the most bytes to allocate; the default is that of `sparsegate.load`.

    Raises:
        ValueError: the file is damaged, too large, or holds tensors of other types.
    """
    found: dict[str, Tensor] = {}
    for one, tensor in parsed_tflite(path, limit=limit).constants:
        found[one.name if one.name not in found else f"{one.name}.{len(found)}"] = tensor
    return found


@dataclass(frozen=True)
class TfliteModel:
    """What a file holds."""

    tables: Any
    """The model, as the package tflite reads it."""
    constants: list[tuple[TfliteTensor, Tensor]]
    """The tensors with values; sparse ones are dense here."""


def parsed_tflite(path: Path, *, limit: int | None = None) -> TfliteModel:
    """The tables and the constant tensors in a TensorFlow Lite file; see `read_tflite`."""
    content = path.read_bytes()
    if content[4:8] != IDENTIFIER:
        raise ValueError(
            f"{path} is not a TensorFlow Lite file: it has no identifier {IDENTIFIER!r}"
        )
    model = _model(path, content)
    try:
        constants = _constants(model, len(content))
    except Exception as error:  # the schema's classes raise whatever they come upon
        raise _damaged(path, "its tables point outside of it") from error
    wanted = sum(math.prod(one.shape) * one.dtype.itemsize for one in constants)
    check_limit(wanted, limit, file_bytes=len(content))
    return TfliteModel(model, [(one, _tensor(path, one)) for one in constants])


class TfliteTensor:
    """A tensor whose values are in the file."""

    def __init__(
        self, tensor: Any, data: NDArray[np.uint8], index: int, place: tuple[int, int]
    ) -> None:
        self.place = place  # its graph, and its index there
        self.name = (tensor.Name() or b"").decode("utf-8") or f"tensor{index}"
        self.shape = [int(tensor.Shape(dim)) for dim in range(tensor.ShapeLength())]
        self.kind = int(tensor.Type())
        self.data = data
        self.sparsity = tensor.Sparsity()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements; bytes if it is not known."""
        return np.dtype(TYPES.get(self.kind, np.uint8))


def _model(path: Path, content: bytes) -> Any:
    try:
        from tflite import Model
    except ImportError as error:
        raise ValueError(MISSING) from error
    try:
        return Model.GetRootAs(content, 0)
    except Exception as error:
        raise _damaged(path, "it has no model") from error


def _constants(model: Any, most: int) -> list[TfliteTensor]:
    """The tensors with values; no table can have more entries than the file has bytes."""
    found: list[TfliteTensor] = []
    for part in range(_checked(model.SubgraphsLength(), most)):
        graph = model.Subgraphs(part)
        for index in range(_checked(graph.TensorsLength(), most)):
            tensor = graph.Tensors(index)
            _checked(tensor.ShapeLength(), most)
            buffer = model.Buffers(tensor.Buffer())
            if buffer.DataLength():
                data = buffer.DataAsNumpy()
                found.append(TfliteTensor(tensor, data, len(found), (part, index)))
            if len(found) > most:
                raise ValueError("more tensors than bytes")
    return found


def _checked(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise ValueError(f"{count} entries in a file of {most} bytes")
    return count


def _tensor(path: Path, one: TfliteTensor) -> Tensor:
    if one.kind not in TYPES:
        raise ValueError(
            f"{path}: {one.name} holds elements of type {one.kind}, which are not read; expected "
            f"{', '.join(np.dtype(each).name for each in TYPES.values())}"
        )
    if min(one.shape, default=0) < 0:
        raise _damaged(path, f"{one.name} has the impossible shape {one.shape}")
    if len(one.data) % one.dtype.itemsize:
        raise _damaged(path, f"{one.name} ends within an element")
    values = np.ascontiguousarray(one.data).view(one.dtype)
    try:
        array = values if one.sparsity is None else densified(one.sparsity, values, one.shape)
    except Exception as error:
        raise _damaged(path, f"the indices of {one.name} do not fit its shape") from error
    if array.size != math.prod(one.shape):
        raise _damaged(path, f"{one.name} has {array.size} elements for its shape {one.shape}")
    array = array.reshape(one.shape)
    return torch.from_numpy(array.copy())


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(f"{path} is damaged: {why}")


def densified(sparsity: Any, values: NDArray[Any], shape: list[int]) -> NDArray[Any]:
    """The elements of a sparse tensor, zeros included.

    The dimensions are listed in an order of traversal; a dimension of blocks counts positions
    within the dimension that it divides. A level is dense, or lists its positions for every
    position of the levels before.
    """
    order = [int(one) for one in sparsity.TraversalOrderAsNumpy()]
    blocks = _numbers(sparsity.BlockMapAsNumpy()) if sparsity.BlockMapLength() else []
    if sorted(order) != list(range(len(shape) + len(blocks))):
        raise ValueError("the order of traversal misses a dimension")
    levels = [sparsity.DimMetadata(level) for level in range(len(order))]
    sizes = _sizes(order, blocks, levels, shape)
    places = {dim: np.zeros(1, np.int64) for dim in order}
    for dim, level in zip(order, levels, strict=True):
        repeat, own = _positions(level, len(places[dim]), sizes[dim], math.prod(shape))
        places = {other: at[repeat] for other, at in places.items()}
        places[dim] = own
    if any(len(at) != len(values) for at in places.values()):
        raise ValueError("the values are not as many as their places")
    flat = np.zeros(len(values), np.int64)
    for dim, size in enumerate(shape):
        at = places[dim]
        for number, divided in enumerate(blocks):
            if divided == dim:
                inner = len(shape) + number
                at = at * sizes[inner] + places[inner]
        flat = flat * size + at
    found = np.zeros(math.prod(shape), values.dtype)
    found[flat] = values
    return found


def _numbers(given: Any) -> list[int]:
    return [int(one) for one in given]


def _sizes(
    order: list[int], blocks: list[int], levels: list[Any], shape: list[int]
) -> dict[int, int]:
    """The positions of every dimension; those that are divided count blocks."""
    sizes = dict(enumerate(shape))
    for number, divided in enumerate(blocks):
        inner = len(shape) + number
        size = int(levels[order.index(inner)].DenseSize())
        if size < 1 or divided not in sizes or divided >= len(shape) or sizes[divided] % size:
            raise ValueError("blocks do not divide their dimension")
        sizes[inner] = size
        sizes[divided] //= size
    return sizes


def _positions(
    level: Any, count: int, size: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every position of a level: the position before that it is within, and its place there."""
    if level.Format() != CSR:
        if level.DenseSize() != size or count * size > most:
            raise ValueError("a dense dimension has another size")
        return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    segments = _vector(level.ArraySegments(), level.ArraySegmentsType())
    own = _vector(level.ArrayIndices(), level.ArrayIndicesType())
    is_whole = len(segments) == count + 1 and segments[0] == 0 and segments[-1] == len(own)
    counts = np.diff(segments)
    if not is_whole or (counts < 0).any() or len(own) > most:
        raise ValueError("segments do not fit")
    if len(own) and not 0 <= own.min() <= own.max() < size:
        raise ValueError("an index lies outside")
    return np.repeat(np.arange(count), counts), own


def _vector(table: Any, kind: int) -> NDArray[np.int64]:
    """The numbers of a vector in one of three widths."""
    import tflite

    classes = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}
    vector = classes[kind]()
    vector.Init(table.Bytes, table.Pos)
    return (
        np.asarray(vector.ValuesAsNumpy(), np.int64)
        if vector.ValuesLength()
        else np.zeros(0, np.int64)
    )
