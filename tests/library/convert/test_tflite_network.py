"""TensorFlow Lite files become network files that compute what LiteRT computes."""

import random

import numpy as np
import pytest

pytest.importorskip("flatbuffers")
pytest.importorskip("tflite")
from sparsegate.cli import main
from sparsegate.convert import convert_tflite
from sparsegate_runtime.network_file import Network

from .tflite_builder import Model

DRAW = np.random.default_rng(0)
SAME, VALID = 0, 1
RELU, RELU6 = 1, 3


def normal(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


def sparse(*shape):
    return normal(*shape) * (DRAW.random(shape) < 0.3).astype(np.float32)


def integers(*values):
    return np.array(values, np.int32)


def litert(path, inputs):
    """What LiteRT computes."""
    runtime = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = runtime.Interpreter(model_path=str(path))
    for detail in interpreter.get_input_details():
        interpreter.resize_tensor_input(detail["index"], inputs.shape)
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    interpreter.set_tensor(given["index"], inputs)
    interpreter.invoke()
    return [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]


def images_model(*, signature=None):
    """Convolutions of every kind, pools, interpolation, and a sparse matrix in half precision."""
    m = Model()
    x = m.add("pixels", (1, 9, 8, 3), signature=signature)
    t = [m.add(f"t{k}", shape) for k, shape in enumerate([
        (1, 5, 4, 8), (1, 5, 4, 8), (1, 7, 5, 8), (1, 5, 4, 8), (1, 2, 2, 8), (1, 4, 4, 8),
        (1, 8, 8, 4), (1, 8, 8, 4), (1, 16, 16, 1), (1, 4), (1, 6), (1, 6),
    ])]  # fmt: skip
    kernel = m.add("kernel", values=sparse(8, 3, 3, 3))
    depth = m.add("depth", values=normal(1, 3, 3, 8))
    up = m.add("up", values=normal(4, 3, 3, 8))
    bias, last = m.add("bias", values=normal(8)), m.add("last", values=normal(6))
    m.run("CONV_2D", [x, kernel, bias], [t[0]], "Conv2DOptions",
          Padding=SAME, StrideH=2, StrideW=2, FusedActivationFunction=RELU6)  # fmt: skip
    m.run("DEPTHWISE_CONV_2D", [t[0], depth, bias], [t[1]], "DepthwiseConv2DOptions",
          Padding=SAME, StrideH=1, StrideW=1, DepthMultiplier=1)  # fmt: skip
    sides = m.add("sides", values=integers([0, 0], [1, 1], [1, 0], [0, 0]))
    m.run("PAD", [t[1], sides], [t[2]])
    m.run("AVERAGE_POOL_2D", [t[2]], [t[3]], "Pool2DOptions", Padding=VALID,
          StrideH=1, StrideW=1, FilterHeight=3, FilterWidth=2)  # fmt: skip
    m.run("MAX_POOL_2D", [t[3]], [t[4]], "Pool2DOptions", Padding=VALID,
          StrideH=2, StrideW=2, FilterHeight=3, FilterWidth=2)  # fmt: skip
    size = m.add("size", values=integers(4, 4))
    m.run("RESIZE_BILINEAR", [t[4], size], [t[5]], "ResizeBilinearOptions", HalfPixelCenters=True)
    wanted = m.add("wanted", values=integers(1, 8, 8, 4))
    m.run("TRANSPOSE_CONV", [wanted, up, t[5]], [t[6]], "TransposeConvOptions",
          Padding=SAME, StrideH=2, StrideW=2)  # fmt: skip
    scale = m.add("scale", values=normal(4))
    m.run("MUL", [t[6], scale], [t[7]], "MulOptions", FusedActivationFunction=RELU)
    m.run("DEPTH_TO_SPACE", [t[7]], [t[8]], "DepthToSpaceOptions", BlockSize=2)
    axes = m.add("axes", values=integers(1, 2))
    m.run("MEAN", [t[7], axes], [t[9]], "ReducerOptions", KeepDims=False)
    values, how = m.rows(sparse(6, 4).astype(np.float16))
    half = m.add("half", (6, 4), values, sparsity=how)
    dense, whole = m.add("dense", (6, 4), kind="float16"), m.add("whole", (6, 4))
    m.run("DENSIFY", [half], [dense], "DensifyOptions")
    m.run("DEQUANTIZE", [dense], [whole], "DequantizeOptions")
    m.run("FULLY_CONNECTED", [t[9], whole, last], [t[10]], "FullyConnectedOptions")
    m.run("SOFTMAX", [t[10]], [t[11]], "SoftmaxOptions", Beta=0.5)
    return m.bytes([x], [t[11], t[8]])


def elements_model():
    """Functions of elements, and what moves them."""
    m, number = Model(), iter(range(100))

    def tensor(*shape):
        return m.add(f"t{next(number)}", shape)

    def constant(values):
        return m.add(f"c{next(number)}", values=values)

    def run(kind, inputs, shape, options=None, **given):
        out = tensor(*shape)
        m.run(kind, inputs, [out], options, **given)
        return out

    x = m.add("x", (2, 4, 6, 5))
    a = run("HARD_SWISH", [x], (2, 4, 6, 5))
    slopes = constant(np.abs(normal(1, 1, 5)))
    b = run("PRELU", [a, slopes], (2, 4, 6, 5))
    c = run("LEAKY_RELU", [b], (2, 4, 6, 5), "LeakyReluOptions", Alpha=0.1)
    d = run("SQUARED_DIFFERENCE", [c, x], (2, 4, 6, 5))
    one = constant(np.float32([1]))
    e = run("RSQRT", [run("ADD", [d, one], (2, 4, 6, 5), "AddOptions")], (2, 4, 6, 5))
    f = run("SPACE_TO_DEPTH", [e], (2, 2, 3, 20), "SpaceToDepthOptions", BlockSize=2)
    big = constant(integers(3, 7))
    g = run("RESIZE_NEAREST_NEIGHBOR", [f, big], (2, 3, 7, 20))
    h = run("CONCATENATION", [g, g], (2, 3, 7, 40), "ConcatenationOptions", Axis=3)
    first, last, steps = (
        constant(integers(*row)) for row in ((0, 1, 0, 2), (2, 2, 7, 40), (1, 1, 2, 3))
    )
    i = run(
        "STRIDED_SLICE",
        [h, first, last, steps],
        (2, 4, 13),
        "StridedSliceOptions",
        ShrinkAxisMask=2,
    )
    j = run("TRANSPOSE", [i, constant(integers(0, 2, 1))], (2, 13, 4))
    axis = constant(integers(1))
    parts = [tensor(2, 5, 4), tensor(2, 8, 4)]
    m.run("SPLIT_V", [j, constant(integers(5, -1)), axis], parts, "SplitVOptions", NumSplits=2)
    k = run("REDUCE_MAX", [parts[1], axis], (2, 4), "ReducerOptions", KeepDims=False)
    k = run("EXPAND_DIMS", [k, axis], (2, 1, 4))
    m2 = run("BATCH_MATMUL", [parts[0], k], (2, 5, 1), "BatchMatMulOptions", AdjY=True)
    out = run("RESHAPE", [run("GELU", [m2], (2, 5, 1), "GeluOptions")], (2, 5), "ReshapeOptions",
              NewShape=m.numbers((2, -1)))  # fmt: skip
    return m.bytes([x], [run("LOG_SOFTMAX", [out], (2, 5)), g])


def compare(path, target, inputs):
    convert_tflite(path, target)
    found, wanted = Network.load(target)(inputs), litert(path, inputs)
    found = found if isinstance(found, tuple | list) else [found]
    assert [one.shape for one in found] == [one.shape for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("images", [True, False])
def test_a_converted_network_computes_the_same(images, tmp_path):
    path = tmp_path / "net.tflite"
    path.write_bytes(images_model() if images else elements_model())
    compare(path, tmp_path / "net.sgn", normal(*((1, 9, 8, 3) if images else (2, 4, 6, 5))))


def test_the_batch_varies_if_the_file_says_so(tmp_path):
    m = Model()
    x, y = m.add("x", (1, 4, 4, 3), signature=(-1, 4, 4, 3)), m.add("y", (1, 4))
    a, b = m.add("a", (1, 2, 2, 4)), m.add("b", (1, 4))
    kernel = m.add("kernel", values=sparse(4, 3, 3, 3))
    zeros = m.add("zeros", values=np.zeros(4, np.float32))
    m.run("CONV_2D", [x, kernel, zeros], [a], "Conv2DOptions", Padding=VALID, StrideH=1, StrideW=1)
    m.run("MEAN", [a, m.add("axes", values=integers(1, 2))], [b], "ReducerOptions")
    m.run("TANH", [b], [y])
    path, target = tmp_path / "net.tflite", tmp_path / "net.sgn"
    path.write_bytes(m.bytes([x], [y]))
    for batch in (1, 3):
        compare(path, target, normal(batch, 4, 4, 3))
    assert Network.load(target).inputs[0].shape == ("batch", 4, 4, 3)


def test_weights_of_8_bits_become_floats(tmp_path):
    m = Model()
    x, y = m.add("x", (1, 4)), m.add("y", (1, 3))
    weight = np.array([[1, -2, 0, 0], [0, 0, 3, 0], [0, 127, 0, 0]], np.int8)
    w, whole = m.add("w", values=weight, scale=[0.5, 0.25, 2]), m.add("whole", (3, 4))
    m.run("DEQUANTIZE", [w], [whole])
    m.run("FULLY_CONNECTED", [x, whole, -1], [y], "FullyConnectedOptions")
    (tmp_path / "net.tflite").write_bytes(m.bytes([x], [y]))
    convert_tflite(tmp_path / "net.tflite", tmp_path / "net.sgn")
    inputs = normal(1, 4)
    wanted = inputs @ (weight * np.float32([[0.5], [0.25], [2]])).T
    np.testing.assert_allclose(Network.load(tmp_path / "net.sgn")(inputs), wanted, rtol=1e-5)


def test_the_command_converts(tmp_path, capsys):
    path, target = tmp_path / "net.tflite", tmp_path / "net.sgn"
    path.write_bytes(images_model())
    assert main(["compress", str(path), str(target)]) == 0
    assert "operations; net.tflite has" in capsys.readouterr().out
    assert main(["inspect", str(target)]) == 0
    assert "pixels: float32 [1, 9, 8, 3]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "wrote", "words"),
    [
        ("CUMSUM", {}, r"CUMSUM \(y\) cannot be converted: the engine does not have it"),
        ("RELU", {"kind": "int8"}, "only networks of float32 are converted"),
    ],
)
def test_what_the_engine_does_not_have_is_named(kind, wrote, words, tmp_path):
    m = Model()
    x, y = m.add("x", (1, 4)), m.add("y", (1, 4), **wrote)
    m.run(kind, [x], [y])
    (tmp_path / "net.tflite").write_bytes(m.bytes([x], [y]))
    with pytest.raises(ValueError, match=words):
        convert_tflite(tmp_path / "net.tflite", tmp_path / "net.sgn")
    assert not (tmp_path / "net.sgn").exists()


def test_damaged_files_are_converted_or_refused_in_words(tmp_path):
    path, target = tmp_path / "net.tflite", tmp_path / "net.sgn"
    content, draw, messages = images_model(), random.Random(0), []
    for _ in range(60):
        changed = bytearray(content)
        at = draw.randrange(8, len(changed))
        changed[at] = draw.choice((0, 1, 127, 255, draw.randrange(256)))
        path.write_bytes(changed)
        try:
            convert_tflite(path, target)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 8
    assert all(messages)
