"""ONNX files: smaller by sparse initializers, and computed by stock ONNX Runtime with equal results."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import sparsegate as sg
from sparsegate.cli import main
from sparsegate.export.onnx_export import as_sparse
from sparsegate.files import read_state_dict


def pruned(model, keep=0.1):
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight *= torch.rand_like(weight) < keep
    return model.eval()


def lenet(keep=0.05):
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 8, 5), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return pruned(nn.Sequential(*layers, nn.Linear(1152, 64), nn.ReLU(), nn.Linear(64, 10)), keep)


def outputs(path, *inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    values = [each.numpy() for each in inputs]
    return [
        torch.from_numpy(each) for each in session.run(None, dict(zip(names, values, strict=True)))
    ]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A convolutional network with 5 % of its weights, for any batch size."""
    path = tmp_path_factory.mktemp("onnx") / "network.onnx"
    return path, sg.to_onnx(lenet(), path, torch.randn(2, 1, 28, 28))


def test_onnx_runtime_computes_what_torch_computes_for_any_batch(file):
    images = torch.randn(5, 1, 28, 28)
    torch.testing.assert_close(outputs(file[0], images)[0], lenet()(images).detach())


def test_the_file_is_smaller_by_its_zeros(file):
    path, written = file
    assert written.files == (path,)
    assert written.num_bytes == path.stat().st_size
    proto = onnx.load(path)
    sparse = {each.values.name: each for each in proto.graph.sparse_initializer}
    kept = {name: int(torch.count_nonzero(lenet().state_dict()[name])) for name in sparse}
    assert sorted(kept) == ["0.weight", "5.weight", "7.weight"]
    assert {name: each.values.dims[0] for name, each in sparse.items()} == kept
    assert path.stat().st_size < 7 * sum(kept.values()) + 4000 < 4 * 73728 / 4
    onnx.checker.check_model(proto)


def test_the_file_says_nothing_of_the_machine_that_wrote_it(file):
    assert b".py" not in file[0].read_bytes()
    assert b"/" not in re.sub(rb"[^ -~]+", b"", file[0].read_bytes()[:200])


def test_dense_weights_stay_dense():
    assert as_sparse(numpy_helper.from_array(np.eye(2, dtype=np.float32) + 1)) is None


class Sum(nn.Module):
    """Takes two inputs."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(30, 40), nn.Linear(30, 40)

    def forward(self, one, two):
        return self.one(one) - self.two(two), one


def test_several_inputs_may_go_by_keyword(tmp_path):
    model, one, two = pruned(Sum()), torch.randn(3, 30), torch.randn(3, 30)
    sg.to_onnx(model, tmp_path / "sum.onnx", {"one": one, "two": two})
    found = outputs(tmp_path / "sum.onnx", one, two)
    torch.testing.assert_close(found[0], model(one, two)[0].detach())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.int8])
def test_tensors_of_many_types_become_sparse_and_dense_again(dtype, tmp_path):
    dense = np.zeros((9, 300), dtype)
    dense[2, 5], dense[8, 299], dense[0, 0] = 3, -2, 1
    sparse = as_sparse(numpy_helper.from_array(dense, "weight"))
    read = read_state_dict(saved(tmp_path, sparse=[sparse]))
    assert np.array_equal(read["weight"].numpy(), dense)
    assert read["weight"].numpy().dtype == dtype


def test_brain_floats_are_read_bit_for_bit(tmp_path):
    values = helper.make_tensor("weight", TensorProto.BFLOAT16, [3], [1.5, 0.0, -2.0])
    read = read_state_dict(saved(tmp_path, dense=[values]))
    assert torch.equal(read["weight"], torch.tensor([1.5, 0.0, -2.0], dtype=torch.bfloat16))


def test_indices_may_have_one_number_for_each_dimension(tmp_path):
    sparse = sparse_tensor([3.0, 4.0], [[0, 1], [2, 0]], (3, 2), index_dims=[2, 2])
    read = read_state_dict(saved(tmp_path, sparse=[sparse]))
    assert read["weight"].tolist() == [[0, 3], [0, 0], [4, 0]]


def test_what_was_written_is_read_again(file):
    read = read_state_dict(file[0])
    assert torch.equal(read["5.weight"], lenet()[5].weight)


def test_the_command_inspects_and_compresses_onnx_files(file, tmp_path, capsys):
    assert main(["inspect", str(file[0])]) == 0
    out = capsys.readouterr().out
    assert re.search(r"5\.weight +64x1152 +3,\d+ +[\d,]+ +9[45]\.\d\d %", out)
    assert main(["compress", str(file[0]), str(tmp_path / "network.sg")]) == 0
    assert torch.equal(sg.load(tmp_path / "network.sg").state_dict()["5.weight"], lenet()[5].weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: sg.to_onnx(lenet(), path / "x.pb", torch.randn(2, 1, 28, 28)), "in .onnx"),
        (
            lambda path: sg.to_onnx(lenet(), path / "x.onnx", torch.randn(2, 3)),
            "does not run on the example",
        ),
        (
            lambda path: sg.to_onnx(sg.gate(nn.Linear(2, 2)), path / "x.onnx", torch.randn(2, 2)),
            "finish",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_in_words(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def saved(folder, dense=(), sparse=()):
    """A file with these initializers and no operations."""
    graph = helper.make_graph([], "g", [], [], list(dense), sparse_initializer=list(sparse))
    path = folder / "made.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def sparse_tensor(values, indices, dims, index_dims=None):
    flat = np.array(indices).reshape(-1).tolist()
    places = helper.make_tensor("", TensorProto.INT64, index_dims or [len(flat)], flat)
    data = helper.make_tensor("weight", TensorProto.FLOAT, [len(values)], values)
    return helper.make_sparse_tensor(data, places, dims)


@pytest.mark.parametrize(
    ("values", "indices", "dims"),
    [
        ([1.0, 2.0], [0, 6], (2, 3)),  # outside
        ([1.0, 2.0], [-1, 2], (2, 3)),
        ([1.0, 2.0], [2, 2], (2, 3)),  # twice
        ([1.0, 2.0], [3, 2], (2, 3)),  # in another order
        ([1.0, 2.0], [1], (2, 3)),  # too few
    ],
)
def test_damaged_indices_are_refused(values, indices, dims, tmp_path):
    path = saved(tmp_path, sparse=[sparse_tensor(values, indices, dims)])
    with pytest.raises(ValueError, match="weight is damaged: expected ascending indices"):
        read_state_dict(path)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    path = saved(tmp_path, sparse=[sparse_tensor([1.0], [0], (2**20, 2**20))])
    with pytest.raises(ValueError, match="more than the limit"):
        read_state_dict(path)


def test_other_files_and_damaged_ones_are_refused(tmp_path, file):
    external = numpy_helper.from_array(np.zeros(3, np.float32), "weight")
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="../../etc/passwd")
    with pytest.raises(ValueError, match=r"is in another file \(external data\)"):
        read_state_dict(saved(tmp_path, dense=[external]))
    words = helper.make_tensor("words", TensorProto.STRING, [1], [b"x"])
    with pytest.raises(ValueError, match="words holds elements of STRING"):
        read_state_dict(saved(tmp_path, dense=[words]))
    short = numpy_helper.from_array(np.zeros(3, np.float32), "short")
    short.dims[0] = 4
    with pytest.raises(ValueError, match="short is damaged"):
        read_state_dict(saved(tmp_path, dense=[short]))
    (tmp_path / "text.onnx").write_text("no network at all, but some text")
    with pytest.raises(ValueError, match="is not an ONNX file, or is damaged"):
        read_state_dict(tmp_path / "text.onnx")


def test_cut_and_flipped_files_raise_nothing_but_value_errors(file, tmp_path):
    content, path = file[0].read_bytes(), tmp_path / "network.onnx"
    draw = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(content)
        for place in draw.integers(0, len(content), 8):
            damaged[place] ^= 1 << int(draw.integers(0, 8))
        path.write_bytes(damaged[: int(draw.integers(1, len(content)))])
        try:
            read_state_dict(path)
        except ValueError:
            continue
