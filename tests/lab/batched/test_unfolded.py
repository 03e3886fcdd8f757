"""The unfolded convolution of many members is each one's convolution."""

import pytest
import torch
from torch.nn import functional as F

from sparsegate_lab.batched.unfolded import fits_unfolding, unfolded_conv


@pytest.mark.parametrize(
    ("members", "channels", "units", "kernel"),
    [(3, 2, 5, (5, 5)), (2, 1, 20, (3, 2)), (1, 8, 8, (1, 1))],
)
def test_values_and_gradients(members, channels, units, kernel):
    torch.manual_seed(0)
    images = torch.randn(members * 4, channels, 9, 8, requires_grad=True)
    weight = torch.randn(members, units, channels, *kernel, requires_grad=True)
    bias = torch.randn(members, units, requires_grad=True)
    made = unfolded_conv(images, weight, bias)
    parts = zip(images.chunk(members), weight, bias, strict=True)
    wanted = torch.cat([F.conv2d(*each) for each in parts])
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    grad = torch.randn_like(wanted)
    for one, other in zip(
        torch.autograd.grad(made, (images, weight, bias), grad),
        torch.autograd.grad(wanted, (images, weight, bias), grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_padding_and_strides_are_for_others():
    assert fits_unfolding((1, 1), (0, 0), (1, 1), 1)
    assert not fits_unfolding((2, 2), (0, 0), (1, 1), 1)
    assert not fits_unfolding((1, 1), (1, 1), (1, 1), 1)
    assert not fits_unfolding((1, 1), (0, 0), (1, 1), 2)
