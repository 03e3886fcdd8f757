"""Compiled networks compute what PyTorch computes."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn

from sparsegate.export import hard_wire

SIZES = (0, 1, 15, 16, 17, 33)


def assert_same(model, fast, images):
    with torch.no_grad():
        for size in SIZES:
            wanted, found = model(images[:size]), fast(images[:size])
            assert found.shape == wanted.shape
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 6 * 6, 3)
    ).eval()
    return model, hard_wire(model, example=torch.zeros(1, 1, 8, 8)), torch.randn(33, 1, 8, 8)


def test_every_kind_of_network_computes_what_it_did(network):
    model, images = network
    assert_same(model, hard_wire(model, example=images), images)


@st.composite
def convolutions(draw):
    """A convolution with what may follow it, and a classifier."""
    groups, stride = draw(st.sampled_from([1, 2])), draw(st.integers(1, 2))
    inputs, outputs = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 3))
    size, padding, dilation = (
        draw(st.integers(1, 3)),
        draw(st.integers(0, 2)),
        draw(st.integers(1, 2)),
    )
    height, width = draw(st.integers(7, 10)), draw(st.integers(7, 38))
    conv = nn.Conv2d(
        inputs, outputs, size, stride, padding, dilation, groups, bias=draw(st.booleans())
    )
    between = draw(
        st.sampled_from(
            [[], [nn.MaxPool2d(2)], [nn.MaxPool2d(3)], [nn.AvgPool2d(2)], [nn.MaxPool2d(2, 1)]]
        )
    )
    layers = [conv, nn.BatchNorm2d(outputs), *between, nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)]
    return nn.Sequential(*layers), (inputs, height, width), draw(st.sampled_from([0.0, 0.3, 1.0]))


@settings(
    max_examples=examples(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(convolutions())
def test_drawn_convolutions_compute_what_they_did(drawn):
    model, shape, keep = drawn
    torch.manual_seed(0)
    images = torch.randn(33, *shape)
    model(images)
    model[0].weight.data *= torch.rand_like(model[0].weight) < keep
    model.eval()
    assert_same(model, hard_wire(model, example=images), images)


def test_a_network_of_zeros_gives_its_biases():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)
    ).eval()
    for layer in (model[0], model[3]):
        nn.init.zeros_(layer.weight)
    images = torch.randn(33, 1, 4, 4)
    fast = hard_wire(model, example=images)
    assert fast.code.num_weights == 0
    assert_same(model, fast, images)


def test_images_in_any_memory_order_are_taken(tiny):
    model, fast, _ = tiny
    images = torch.randn(8, 8, 1, 20).permute(3, 2, 1, 0)
    torch.testing.assert_close(fast(images), model(images).detach(), rtol=1e-4, atol=1e-4)


def test_there_is_no_backward(tiny):
    _, fast, images = tiny
    assert not fast(images).requires_grad
    wanting = images.clone().requires_grad_()
    with pytest.raises(ValueError, match="no backward"):
        fast(wanting)
    with torch.no_grad():
        assert fast(wanting).shape == (33, 3)


@pytest.mark.parametrize(
    "images",
    [torch.zeros(1, 1, 8, 9), torch.zeros(1, 8, 8), torch.zeros(1, 1, 8, 8).double()],
    ids=str,
)
def test_other_images_are_refused(images, tiny):
    with pytest.raises(ValueError, match="compiled for image x 1 x 8 x 8 in float32"):
        tiny[1](images)


def test_copies_and_pickles_compute_the_same(tiny):
    _, fast, images = tiny
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert torch.equal(other(images), fast(images))
    assert fast.state_dict() == {}
    assert "90 weights" not in repr(fast)
    assert "234 weights" in repr(fast)  # 234 = 2 * 9 + 72 * 3


def test_threads_may_call_at_once(tiny):
    _, fast, images = tiny
    wanted = fast(images)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(found, wanted) for found in pool.map(fast, [images] * 40))
