"""`to_onnx`: writes a network as an ONNX file that is smaller the sparser the network is."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree

from sparsegate.gates import check_finished
from sparsegate.graph import Example, arguments_of, check_runs, evaluating, unchecked
from sparsegate_runtime.atomic import write_atomically

from .exporter import ExportResult
from .normalise import Normalise

if TYPE_CHECKING:
    from onnx import ModelProto, SparseTensorProto, TensorProto

MISSING = (
    "to_onnx needs the packages onnx and onnxscript, which are not installed; "
    "pip install 'sparsegate[onnx]'"
)
MAX_BYTES = 2**31 - 1
"""The largest message of protobuf."""


def to_onnx(model: nn.Module, path: str | Path, example: Example) -> ExportResult:
    """Writes a model as an ONNX file whose sparse weights take less space.

        sg.to_onnx(model, "network.onnx", images)
        session = onnxruntime.InferenceSession("network.onnx")

    Every weight is stored as `sparse_initializer` where that is smaller: at half zeros or more.
    Engines such as ONNX Runtime read such files and compute with dense weights: the file is
    smaller, not faster. Batch normalization after a convolution becomes part of its weights.

    Args:
        model: a model without gates; it is written as it computes in eval.
        path: the file, `NAME.onnx`.
        example: its input; several as a tuple, by keyword as a dict. With two or more inputs in
            the batch, the file takes a batch of any size, if the model does.

    Raises:
        ValueError: onnx or onnxscript is missing, the model cannot be exported, or the file would
            exceed 2 GB.

    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(
            f"expected a path that ends in .onnx, got {path.name!r}; "
            f"write '{path.stem or 'network'}.onnx'"
        )
    check_finished(model)
    proto = exported(model, example)
    sparsify_(proto)
    if proto.ByteSize() > MAX_BYTES:
        raise ValueError(f"an ONNX file holds at most 2 GB, got {proto.ByteSize():,} bytes")
    content = proto.SerializeToString()
    write_atomically(path, content)
    hint = f'run it: onnxruntime.InferenceSession("{path}")'
    return ExportResult((path,), len(content), num_weights(proto), hint)


def export_onnx(
    model: nn.Module,
    path: str | Path,
    *,
    example: Tensor,
    max_weights: int,  # noqa: ARG001
    normalise: Normalise,  # noqa: ARG001
) -> ExportResult:
    """`to_onnx` as an exporter of the command; the network's size and its images do not matter."""
    return to_onnx(model, path, example[:2])


@torch.no_grad()
def exported(model: nn.Module, example: Example) -> ModelProto:
    """The model as ONNX with dense weights, and without traces of its source code."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(MISSING) from error
    args, kwargs = arguments_of(example)
    with evaluating(model), unchecked(), _quietly():
        try:
            program: Any = torch.onnx.export(
                model,
                args,
                kwargs=kwargs,
                dynamo=True,
                dynamic_shapes=_any_batch(kwargs or args),
                verbose=False,
            )
        except Exception as error:
            check_runs(model, args, kwargs)
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"{type(model).__name__} cannot be written as ONNX by torch.onnx ({reason})"
            ) from error
    proto: ModelProto = program.model_proto
    _strip_(proto)
    return proto


def sparsify_(proto: ModelProto) -> None:
    """Stores initializers sparsely where that takes fewer bytes, in place."""
    from onnx import checker

    graph = proto.graph
    for tensor in list(graph.initializer):
        sparse = as_sparse(tensor)
        if sparse is not None and sparse.ByteSize() < tensor.ByteSize():
            graph.initializer.remove(tensor)
            graph.sparse_initializer.append(sparse)
    if proto.ByteSize() <= MAX_BYTES:
        checker.check_model(proto)


def as_sparse(tensor: TensorProto) -> SparseTensorProto | None:
    """A tensor's nonzero elements with their places; None if most are not zero.

    Indices are written as numbers of variable length: two or three bytes each instead of eight.
    """
    from onnx import SparseTensorProto, TensorProto, numpy_helper

    array = numpy_helper.to_array(tensor)
    if (
        array.ndim == 0
        or array.dtype.kind not in "fiuV"
        or 2 * np.count_nonzero(array) > array.size
    ):
        return None
    flat = array.reshape(-1)
    places = np.flatnonzero(flat)
    indices = TensorProto(data_type=TensorProto.INT64, dims=[len(places)])
    indices.int64_data.extend(places.tolist())
    values = numpy_helper.from_array(np.ascontiguousarray(flat[places]), tensor.name)
    return SparseTensorProto(values=values, indices=indices, dims=array.shape)


def num_weights(proto: ModelProto) -> int:
    """The nonzero elements of all weights, which are tensors of two or more dimensions."""
    from onnx import numpy_helper

    dense = sum(
        int(np.count_nonzero(numpy_helper.to_array(each)))
        for each in proto.graph.initializer
        if len(each.dims) > 1
    )
    sparse = [each for each in proto.graph.sparse_initializer if len(each.dims) > 1]
    return dense + sum(int(each.values.dims[0]) for each in sparse)


def _any_batch(given: Any) -> Any:
    """For torch.export: the first dimension of every tensor may change."""
    return _pytree.tree_map(
        lambda value: {0: Dim.AUTO} if isinstance(value, Tensor) and value.ndim else None, given
    )


def _strip_(proto: ModelProto) -> None:
    """Removes what the exporter notes about the source code, such as paths on this machine."""
    graph = proto.graph
    for part in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keeps torch.onnx from printing its progress and its warnings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
