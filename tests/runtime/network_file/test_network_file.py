"""Network files: what they compute, what they refuse, and how large they are."""

import subprocess
import sys
import zlib

import numpy as np
import pytest

from sparsegate_runtime import Network
from sparsegate_runtime.engine import Plan, run_arrays
from sparsegate_runtime.files import ByteReader
from sparsegate_runtime.network_file import (
    DiffersError,
    OperationRecord,
    Sketch,
    Symbol,
    decode,
    encode,
    table,
    write,
)
from sparsegate_runtime.network_file.fit import fit
from sparsegate_runtime.network_file.sizes import Size, read_size

from .conftest import small_network


@pytest.fixture(scope="module")
def raw(sketch):
    return encode(sketch)


def with_checksum(head):
    return head + zlib.crc32(head).to_bytes(4, "little")


def parts(raw):
    end = 16 + int.from_bytes(raw[4:8], "little")
    return raw[16:end], raw[end + 4 :]


def joined(graph, weights):
    head = raw_head(graph, weights)
    return with_checksum(head + graph) + weights


def raw_head(graph, weights):
    return b"sgn\1" + len(graph).to_bytes(4, "little") + len(weights).to_bytes(8, "little")


def test_a_file_computes_what_the_network_did(raw, inputs):
    wanted = run_arrays(Plan(small_network()), inputs)
    found = Network.from_bytes(raw)(*inputs)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))


def test_it_runs_at_other_sizes(raw, inputs):
    network = Network.from_bytes(raw)
    twice = [np.concatenate([one, one, one]) for one in inputs]
    alone, more = network(*inputs), network(*twice)
    for one, other in zip(alone, more, strict=True):
        assert other.shape[0] == 6
        assert np.allclose(np.concatenate([one, one, one]), other, atol=1e-6)


def test_inputs_and_outputs_are_described(raw):
    network = Network.from_bytes(raw)
    assert [(one.name, one.type, one.shape) for one in network.inputs] == [
        ("image", "float32", ("batch", 2, 6, 5)),
        ("ids", "int64", ("batch", 3)),
    ]
    assert [(one.name, one.shape) for one in network.outputs] == [
        ("scores", ("batch", 2, 4, 4)),
        ("last", ("batch", 2, 3)),
    ]


def test_a_file_is_written_and_read_again_the_same(raw, sketch, tmp_path):
    write(sketch, tmp_path / "net.sgn")
    assert (tmp_path / "net.sgn").read_bytes() == raw
    assert encode(decode(raw)) == raw


def test_the_table_names_every_layer(raw):
    text = table(Network.from_bytes(raw))
    assert "size    batch: at least 1, 2 when saved" in text
    for words in (
        "conv",
        "4 x 2 x 3 x 3",
        "attention",
        "causal",
        "recurrent",
        "embedding",
        "7 x 12",
    ):
        assert words in text


def test_inputs_may_be_given_by_name_and_threads_change_nothing(raw, inputs):
    network = Network.from_bytes(raw)
    wanted = network(*inputs)
    network.threads = 2
    found = network(ids=inputs[1].astype(np.int32), image=inputs[0].astype(np.float64))
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda image, ids: (image,), "expected the inputs image, ids"),
        (lambda image, ids: (image[:, :1], ids), "must have the shape"),
        (lambda image, ids: (image[:1], ids), "the batch is 1"),
        (lambda image, ids: (image, ids.astype(float)), "must be int64, got float64"),
        (lambda image, ids: (image, ids + 7), "outside of its table"),
        (lambda image, ids: (image[:0], ids[:0]), "must be at least 1"),
        (lambda image, ids: ("word", ids), "must be float32, got"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(raw, inputs, change, words):
    with pytest.raises(ValueError, match=words):
        Network.from_bytes(raw)(*change(*inputs))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: b"", "not an .sgn file"),
        (lambda raw: raw[:12], "not an .sgn file"),
        (lambda raw: b"abc" + raw[3:], "not an .sgn file"),
        (lambda raw: raw[:3] + b"\2" + raw[4:], "version 2, expected 1; update"),
        (lambda raw: raw[:-1], "truncated"),
        (lambda raw: raw + b"\0", "truncated or damaged"),
        (lambda raw: raw[:20] + bytes([raw[20] ^ 1]) + raw[21:], "checksum of its graph"),
        (lambda raw: raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:], "its checksum is wrong"),
        (lambda raw: joined(parts(raw)[0] + b"\0", parts(raw)[1]), "left over"),
        (lambda raw: joined(parts(raw)[0][:-3], parts(raw)[1]), "it ends at byte"),
        (lambda raw: joined(parts(raw)[0], b"abc" + parts(raw)[1]), "not an .sg file"),
    ],
)
def test_damaged_files_are_refused(raw, change, words, tmp_path):
    path = tmp_path / "net.sgn"
    path.write_bytes(change(raw))
    with pytest.raises(ValueError, match=words) as error:
        Network.load(path)
    assert str(path) in str(error.value)


def one_node(kind, fields, shape=(2, 3), tensors=None):
    records = [
        OperationRecord(
            "input", fields={"name": "x", "type": 0, "shape": tuple(Size(offset=s) for s in shape)}
        ),
        OperationRecord(kind, (0,), fields),
    ]
    return Sketch([], records, [(1, "y")], tensors or {})


SHAPE = (Size(offset=7),)
BAD = [
    (one_node("reshape", {"shape": SHAPE}), "cannot become"),
    (one_node("permute", {"dimensions": (0, 0)}), "no order"),
    (one_node("softmax", {"dimension": (5,), "log": 0}), "no dimension 5"),
    (one_node("reduce", {"function": 0, "dimensions": (1, 0)}), "reduction over"),
    (one_node("slice", {"dimension": (1,), "start": Size(offset=1), "step": (2,), "size": Size(offset=2)}), "positions 1 to 3"),
    (one_node("expand", {"shape": (Size(offset=2), Size(offset=4))}), "cannot be repeated"),
    (one_node("pad", {"sides": ((0, 0),), "value": 0.0}), "1 pairs for 2"),
    (one_node("pad", {"sides": ((0, 0), (-3, 0)), "value": 0.0}), "nothing is left"),
    (one_node("function", {"function": (32, 0.0, 0.0)}), "reads 2 tensors"),
    (one_node("expand", {"shape": (Size(offset=2**30), Size(offset=2), Size(offset=3))}), "raise limit="),
    (one_node("embedding", {"table": 0}, tensors={"t": np.ones((3, 3), np.float32)}), "reads float32, expected int64"),
    (
        one_node("linear", {"weight": 0, "bias": None, "factors": None}, tensors={"w": np.ones((3, 4), np.float32)}),
        "4 columns reads 3 features",
    ),
    (
        one_node("linear", {"weight": 0, "bias": 1, "factors": None}, tensors={"w": np.ones((4, 3), np.float32), "b": np.ones(3, np.float32)}),
        "expected 4",
    ),
    (
        one_node("linear", {"weight": 0, "bias": None, "factors": 1}, tensors={"w": np.ones((4, 3), np.float32), "f": np.ones(3, np.float32)}),
        "3 factors",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sketch", "words"), BAD, ids=[words for _, words in BAD])
def test_shapes_that_do_not_agree_are_refused(sketch, words):
    with pytest.raises(ValueError, match=words):
        Network.from_bytes(encode(sketch))


def test_a_tensor_that_no_node_reads_is_refused():
    sketch = one_node(
        "reshape", {"shape": (Size(offset=6),)}, tensors={"w": np.ones(3, np.float32)}
    )
    with pytest.raises(ValueError, match="no node reads the tensor 'w'"):
        decode(encode(sketch))


def test_an_input_that_is_an_output_is_copied():
    network = Network.from_bytes(encode(one_node("reshape", {"shape": (Size(offset=6),)})))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = network(x)
    assert y.tolist() == x.reshape(-1).tolist()
    y[0] = 9
    assert x[0, 0] == 0


@pytest.mark.parametrize(
    "size",
    [
        Size(offset=0),
        Size(offset=300),
        Size((0,)),
        Size((1, 3)),
        Size((2,), 3, 2, -4),
        Size((0, 1, 2, 3), 5, 7, 9),
    ],
)
def test_sizes_are_coded(size):
    assert read_size(ByteReader(size.encode())) == size


def test_sizes_follow_from_others():
    assert fit([3, 3], [[1], [2]]) == Size(offset=3)
    assert fit([63, 31], [[64], [32]]) == Size((0,), 1, 1, -1)
    assert fit([50, 25], [[2, 100], [2, 50]]) == Size((1,), 1, 2, 0)
    assert fit([200, 300], [[2, 100], [3, 100]]).value([4, 100]) == 400
    assert fit([20, 36], [[2, 10], [3, 12]]).value([5, 7]) == 35
    with pytest.raises(DiffersError, match="follows from no other"):
        fit([5, 4], [[1], [2]])


def test_captures_that_differ_are_not_one_network(sketch):
    from sparsegate_runtime.network_file import Capture, sketch_of

    one, other = small_network(2), small_network(3)
    short = type(other)(other.nodes[:-1], other.outputs)
    with pytest.raises(DiffersError, match="operations"):
        sketch_of([Capture(one, {"batch": 2}), Capture(short, {"batch": 3})], [Symbol("batch")])


def test_no_torch_is_imported():
    code = "import sys, sparsegate_runtime.run_command; assert 'torch' not in sys.modules; print(len(sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
