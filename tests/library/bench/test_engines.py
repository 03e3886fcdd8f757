"""Engines other than ours compute what torch computes."""

import pytest
import torch

from sparsegate.bench import ENGINES, write_onnx
from sparsegate_lab.models import LeNet5

IN_PROCESS = [
    name for name in ENGINES if name != "torch.compile"
]  # which does not go with the checks of the tests


@pytest.mark.parametrize("name", IN_PROCESS)
def test_an_engine_that_is_installed_gives_torchs_outputs(name):
    if not ENGINES[name].available():
        pytest.skip(f"{ENGINES[name].package} is not installed")
    model, images = LeNet5().eval(), torch.rand(3, 1, 28, 28)
    with torch.inference_mode():
        forward = ENGINES[name].prepare(model, images, threads=1)
        assert torch.allclose(forward(images), model(images), atol=1e-5)


def test_an_engine_that_is_not_installed_is_not_available():
    class Nowhere(type(ENGINES["onnxruntime"])):
        package = "there-is-no-such-package"

    assert not Nowhere().available()
    assert Nowhere().version() is None


def test_an_onnx_file_has_the_examples_batch(tmp_path):
    onnx = pytest.importorskip("onnx")
    write_onnx(LeNet5().eval(), torch.zeros(3, 1, 28, 28), tmp_path / "network.onnx")
    (given,) = onnx.load(tmp_path / "network.onnx").graph.input
    assert given.name == "x"
    assert [size.dim_value for size in given.type.tensor_type.shape.dim] == [3, 1, 28, 28]
