"""An output depends on its own input alone, bit for bit, whatever else is in the batch."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn

import sparsegate as sg
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")

ODD = {
    "nan": lambda image: image.fill_(float("nan")),
    "one nan": lambda image: image.view(-1)[:1].fill_(float("nan")),
    "inf": lambda image: image.fill_(float("inf")),
    "minus inf": lambda image: image.view(-1)[-1:].fill_(-float("inf")),
    "1e38": lambda image: image.fill_(1e38),
    "100,000 times as large": lambda image: image.mul_(1e5),
}
LINEAR = ("chain", "csr", "dense")
CONVOLUTIONAL = ("chain", "dense", "packed", "winograd", "winograd8")


@st.composite
def linear_networks(draw):
    """A network of one to three linear layers, and its number of inputs."""
    widths = draw(st.lists(st.sampled_from((1, 3, 8, 16, 17, 40)), min_size=2, max_size=4))
    layers = []
    for columns, rows in pairwise(widths):
        layers += [nn.Linear(columns, rows, bias=draw(st.booleans())), nn.ReLU()]
    return nn.Sequential(*layers[: len(layers) - draw(st.integers(0, 1))]), (widths[0],)


@st.composite
def convolutional_networks(draw, channels=16):
    """A network of one or two convolutions and the shape of an image.

    16 channels suit any kernel.
    """
    size = draw(st.sampled_from((5, 6, 7, 8, 13, 16)))
    layers = []
    for _ in range(draw(st.integers(1, 2))):
        taps = draw(st.sampled_from((3, 5)))
        layers += [nn.Conv2d(channels, channels, taps, padding=taps // 2), nn.ReLU()]
    if draw(st.booleans()):
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers), (channels, size, size)


def batches(draw, shape):
    """A batch, the same with odd images among the others, and which images are not odd."""
    seed, count = draw(st.integers(0, 999)), draw(st.sampled_from((2, 3, 4, 5, 16, 17, 33)))
    made = torch.Generator().manual_seed(seed)
    images = torch.randn(count, *shape, generator=made)
    odd = draw(
        st.dictionaries(
            st.integers(0, count - 1), st.sampled_from(list(ODD)), min_size=1, max_size=3
        )
    )
    changed = images.clone()
    for index, kind in odd.items():
        ODD[kind](changed[index])
    return images, changed, [index for index in range(count) if index not in odd]


@torch.no_grad()
def check(data, networks, kernel, sparsified):
    model, shape = data.draw(networks)
    sparsified(model, sparsity=data.draw(st.sampled_from((0.0, 0.5, 0.9))))
    images, changed, others = batches(data.draw, shape)
    fast = sg.sparse(model, images, kernel=kernel)
    want, got = fast(images)[others], fast(changed)[others]
    assert torch.equal(got.view(torch.int32), want.view(torch.int32))


@pytest.mark.parametrize("kernel", LINEAR)
@settings(max_examples=examples(100, few=8))
@given(st.data())
def test_a_linear_layer_keeps_the_images_of_a_batch_apart(sparsified, kernel, data):
    check(data, linear_networks(), kernel, sparsified)


@pytest.mark.parametrize("kernel", CONVOLUTIONAL)
@settings(max_examples=examples(40, few=4))
@given(st.data())
def test_a_convolution_keeps_the_images_of_a_batch_apart(sparsified, kernel, data):
    check(data, convolutional_networks(), kernel, sparsified)


@pytest.mark.parametrize(
    "networks",
    [linear_networks(), convolutional_networks(channels=2)],
    ids=["linear", "convolutional"],
)
@settings(max_examples=examples(4))
@given(st.data())
def test_hard_wired_code_keeps_the_images_of_a_batch_apart(sparsified, networks, data):
    check(data, networks, "hardwired", sparsified)
