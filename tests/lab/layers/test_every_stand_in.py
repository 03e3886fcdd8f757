"""Every stand-in takes batches of any shape, half precision, copies, and its state dict."""

import copy

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import Resized, StandIn
from sparsegate_lab.methods.acdc import AcdcLayer
from sparsegate_lab.methods.circulant import CirculantLayer
from sparsegate_lab.methods.fastfood import FastfoodLayer
from sparsegate_lab.methods.predicted import PredictedLayer
from sparsegate_lab.methods.product_quantised import Codebook
from sparsegate_lab.methods.svd import LowRank
from sparsegate_lab.methods.tensor_train import TensorTrainLayer

MAKERS = {
    "LowRank": lambda layer: LowRank(layer, rank=3),
    "FastfoodLayer": FastfoodLayer,
    "AcdcLayer": lambda layer: AcdcLayer(layer, depth=3),
    "Resized": lambda layer: Resized(layer, by=nn.Linear(32, 10)),
    "TensorTrainLayer": lambda layer: TensorTrainLayer(layer, modes=3, rank=4),
    "CirculantLayer": CirculantLayer,
    "PredictedLayer": lambda layer: PredictedLayer(layer, channels=2, keep=0.5),
    "Codebook": lambda layer: Codebook(layer, length=4, num_codes=5),
}
every_stand_in = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


@pytest.fixture
def dense():
    torch.manual_seed(0)
    return nn.Linear(32, 10)


def test_every_class_is_here():
    ours = {
        kind for kind in StandIn.__subclasses__() if kind.__module__.startswith("sparsegate_lab")
    }
    assert {kind.__name__ for kind in ours} == set(MAKERS)


@every_stand_in
def test_it_takes_batches_of_any_shape(make, dense):
    layer = make(dense)
    x = torch.randn(2, 3, 32)
    assert layer(x).shape == (2, 3, 10)
    torch.testing.assert_close(layer(x)[1, 2], layer(x[1, 2]), atol=1e-5, rtol=1e-4)


@every_stand_in
def test_every_number_learns(make, dense):
    layer = make(dense)
    layer(torch.randn(20, 32)).square().sum().backward()
    assert all(each.grad is not None and bool(each.grad.ne(0).any()) for each in layer.parameters())


@every_stand_in
def test_half_precision_comes_near_full_precision(make, dense):
    layer, x = make(dense), torch.randn(20, 32)
    wanted = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    found.float().sum().backward()
    assert float((found.float() - wanted).norm().detach() / wanted.norm().detach()) < 0.05


@every_stand_in
def test_its_state_dict_rebuilds_it_whatever_the_random_state(make, dense):
    layer, x = make(dense), torch.randn(4, 32)
    torch.manual_seed(1)
    other = make(nn.Linear(32, 10))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer(x))


@every_stand_in
def test_all_it_stores_is_counted(make, dense):
    layer = make(dense)
    floats = sum(each.numel() for each in layer.state_dict().values() if each.is_floating_point())
    assert floats == layer.num_values + (0 if layer.bias is None else layer.bias.numel())
    assert layer.stands_for == (10, 32)


@every_stand_in
def test_it_can_be_copied(make, dense):
    layer, x = make(dense), torch.randn(4, 32)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


@every_stand_in
def test_a_layer_without_a_bias_gets_none(make):
    layer = make(nn.Linear(32, 10, bias=False))
    assert layer(torch.zeros(1, 32)).shape == (1, 10)
    if not isinstance(layer, Resized):
        assert layer.bias is None
