"""The engine on an emulated 64-bit ARM processor computes what torch does."""

import copy
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.arm import emulated

from sparsegate.runtime import image_of_model
from sparsegate_runtime.engine import UnplannedError


def module_at(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


engine = module_at(Path(__file__).parent / "test_engine.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(emulated.missing()), reason=emulated.missing()),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return emulated.build(tmp_path_factory.mktemp("arm"))


@torch.no_grad()
@pytest.mark.parametrize("name", engine.CASES)
def test_it_computes_what_torch_does(name, program, tmp_path):
    model, shape = engine.prepared(name)
    x = torch.randn(2, *shape)
    try:
        image = image_of_model(model, x, instruction_set="neon")
    except UnplannedError as why:
        pytest.skip(str(why))
    wanted = copy.deepcopy(model).double()(x.double())
    [found], _ = emulated.run(program, image, [x.numpy()], tmp_path)
    assert engine.difference(torch.from_numpy(found), wanted) < 2e-5


@torch.no_grad()
def test_recurrent_layers_take_sixteen_images_together(program, tmp_path):
    model, shape = engine.prepared("lstm")
    x = torch.randn(17, *shape)
    wanted = copy.deepcopy(model).double()(x.double())
    image = image_of_model(model, x, instruction_set="neon")
    [found], _ = emulated.run(program, image, [x.numpy()], tmp_path)
    assert engine.difference(torch.from_numpy(found), wanted) < 2e-5


def test_functions_keep_a_nan(program, tmp_path):
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Hardtanh())
    x = torch.full((1, 40), torch.nan)
    image = image_of_model(model, x, instruction_set="neon")
    [found], _ = emulated.run(program, image, [x.numpy()], tmp_path)
    assert np.isnan(found).all()
