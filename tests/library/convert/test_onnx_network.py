"""ONNX files become network files that compute what ONNX Runtime computes."""

import random

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from sparsegate.cli import main  # noqa: E402
from sparsegate.convert import convert_onnx  # noqa: E402
from sparsegate_runtime.network_file import Network  # noqa: E402

DRAW = np.random.default_rng(0)


def normal(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


WEIGHTS = {
    "kernel": normal(4, 3, 3, 3) * (DRAW.random((4, 3, 3, 3)) < 0.2),
    "kernel_bias": normal(4),
    "scale": np.abs(normal(4)),
    "shift": normal(4),
    "up": normal(4, 2, 2, 2),
    "matrix": normal(2, 5) * (DRAW.random((2, 5)) < 0.5),
    "vector": normal(5),
    "low": np.float32(-0.5),
    "axes": np.array([2, 3], np.int64),
    "flat": np.array([0, -1], np.int64),
    "starts": np.array([1], np.int64),
    "ends": np.array([4], np.int64),
    "dims": np.array([1], np.int64),
}


def as_sparse(name):
    """A weight as a sparse initializer."""
    array = np.ascontiguousarray(WEIGHTS[name], np.float32)
    places = np.flatnonzero(array)
    values = numpy_helper.from_array(array.reshape(-1)[places], name)
    return helper.make_sparse_tensor(
        values, numpy_helper.from_array(places.astype(np.int64)), array.shape
    )


def model(*, batch="images", more=()):
    """A network of many operations with sparse and dense weights."""
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "kernel", "kernel_bias"], ["a"], auto_pad="SAME_UPPER"),
        make("BatchNormalization", ["a", "scale", "shift", "shift", "scale"], ["b"]),
        make("Relu", ["b"], ["c"]),
        make("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        make("ConvTranspose", ["d", "up"], ["e"], strides=[2, 2]),
        make("ReduceMean", ["e", "axes"], ["f"], keepdims=0),
        make("Gemm", ["f", "matrix", "vector"], ["g"]),
        make("Clip", ["g", "low"], ["h"]),
        make("Slice", ["h", "starts", "ends", "dims"], ["i"]),
        make("Softmax", ["i"], ["y"]),
        make("Reshape", ["d", "flat"], ["z"]),
        *more,
    ]
    shapes = {"y": [batch, 3], "z": [batch, 64]}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in "yz"],
        initializer=[
            numpy_helper.from_array(np.ascontiguousarray(array), name)
            for name, array in WEIGHTS.items()
            if name not in ("kernel", "matrix")
        ],
        sparse_initializer=[as_sparse("kernel"), as_sparse("matrix")],
    )
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def results(path, inputs):
    """What ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": inputs})


def test_a_converted_network_computes_the_same_for_any_batch(tmp_path, capsys):
    path, target = tmp_path / "net.onnx", tmp_path / "net.sgn"
    onnx.save(model(), path)
    assert main(["compress", str(path), str(target)]) == 0
    assert "operations" in capsys.readouterr().out
    network = Network.load(target)
    for batch in (1, 5):
        inputs = normal(batch, 3, 8, 8)
        for found, wanted in zip(network(inputs), results(path, inputs), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_operation_that_the_engine_does_not_have_is_named(tmp_path):
    more = [helper.make_node("Det", ["e"], ["w"], name="last")]
    onnx.save(model(more=more), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"Det \(last\) cannot be converted"):
        convert_onnx(tmp_path / "net.onnx", tmp_path / "net.sgn")
    assert not (tmp_path / "net.sgn").exists()


def test_only_files_with_operations_become_network_files(tmp_path, capsys):
    (tmp_path / "net.safetensors").write_bytes(b"")
    assert main(["compress", str(tmp_path / "net.safetensors"), str(tmp_path / "net.sgn")]) == 2
    assert "read from .onnx and .tflite files" in capsys.readouterr().err


def test_damaged_files_are_converted_or_refused_in_words(tmp_path):
    path, target = tmp_path / "net.onnx", tmp_path / "net.sgn"
    content = model(batch=2).SerializeToString()
    draw, messages = random.Random(0), []
    for _ in range(60):
        changed = bytearray(content)
        at = draw.randrange(len(changed))
        changed[at] = draw.choice((0, 1, 127, 255, draw.randrange(256)))
        path.write_bytes(changed)
        try:
            convert_onnx(path, target)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 8
    assert all(messages)
