"""`sparsegate export` of everything a user may point at."""

import numpy as np
import onnxruntime
import pytest
import torch

from sparsegate.cli import main
from sparsegate.files import compress
from sparsegate.price import Penalty
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import RunFolder, train


@pytest.fixture(scope="module")
def sparse_file(tmp_path_factory):
    torch.manual_seed(0)
    model = LeNet5()
    for each in model.parameters():
        each.data *= torch.rand_like(each) > 0.99
    path = tmp_path_factory.mktemp("networks") / "network.sg"
    compress(model).save(path)
    return path


@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_a_file_becomes_c_code(dtype, sparse_file, tmp_path, capsys):
    assert (
        main(
            ["export", str(sparse_file), str(tmp_path / "lenet-5.c"), "--to", "c", "--dtype", dtype]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "lenet-5.c and " in out
    assert "lenet-5.h: " in out
    assert " bytes, " in out
    assert " weights\ncc -std=c99 -O3" in out
    assert "void lenet_5_run(" in (tmp_path / "lenet-5.h").read_text()


def test_a_file_becomes_onnx_without_a_limit_of_weights(sparse_file, tmp_path, capsys):
    words = ["export", str(sparse_file), str(tmp_path / "lenet.onnx"), "--to", "onnx"]
    assert main([*words, "--max-weights", "1"]) == 0
    assert "run it: onnxruntime.InferenceSession" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(str(tmp_path / "lenet.onnx"))
    assert session.run(None, {"image": np.zeros((7, 1, 28, 28), np.float32)})[0].shape == (7, 10)


def test_a_run_knows_its_model_and_its_data(small, tmp_path, capsys):
    run = small(method=LearnedGates(gate_lr=400.0, penalty=Penalty(count=1000.0)))
    train(run, folder=tmp_path)
    folder = RunFolder(tmp_path / run.name, run).path
    words = [str(tmp_path / "net.c"), "--to", "c"]
    assert main(["export", str(folder), *words]) == 0
    assert "weights\ncc " in capsys.readouterr().out
    of_folder = (tmp_path / "net.c").read_text()
    assert (
        main(["export", str(folder / "network.safetensors"), *words]) == 0
    )  # its file lies beside its settings
    assert (tmp_path / "net.c").read_text() == of_folder
    assert (
        main(["export", str(folder), *words, "--data", "mnist"]) == 0
    )  # where its own data no longer lies, say
    assert (tmp_path / "net.c").read_text() != of_folder
    assert main(["export", str(folder), *words, "--model", "lenet5"]) != 0
    assert "got --model lenet5; leave it out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "wanted"),
    [("{", "is damaged"), ("[1]", "does not describe a run: it holds a list")],
)
def test_the_settings_of_a_run_that_cannot_be_read_are_named(
    content, wanted, sparse_file, tmp_path, capsys
):
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "network.sg").write_bytes(sparse_file.read_bytes())
    assert main(["export", str(tmp_path / "network.sg"), str(tmp_path / "net.c"), "--to", "c"]) != 0
    complaint = capsys.readouterr().err
    assert "run.json" in complaint
    assert wanted in complaint


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("net.c", "--to", "xml"), "unknown export 'xml'; known: c, onnx, web"),
        (("net.c",), "--to"),
        (("net.cc", "--to", "c"), "expected a path that ends in .c"),
        ((".", "--to", "c"), "ends in .c, got ''; write 'network.c'"),
        ((".", "--to", "web"), "ends in .html, got ''; write 'page.html'"),
        (("net.c", "--to", "c", "--model", "lenet300"), "not those of lenet300"),
        (("net.c", "--to", "c", "--model", "lenet6"), "unknown model 'lenet6'"),
        (("net.c", "--to", "c", "--dtype", "int4"), "int4"),
        (("a.html", "--to", "web", "--dtype", "int8"), "--to web writes fp32, got --dtype int8"),
        (("net.c", "--to", "c", "--max-weights", "10"), "expected at most 10 weights"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    words, wanted, sparse_file, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(sparse_file), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sparsegate: error: ")
    assert error.count("\n") == 1
    assert wanted in error
    assert list(tmp_path.iterdir()) == []
