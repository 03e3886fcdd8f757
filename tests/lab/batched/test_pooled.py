"""The convolution with its pooling and rectifier is the three operations one after the other."""

from importlib.util import find_spec

import pytest
import torch
from torch.nn import functional as F

from sparsegate_lab.batched.pooled import pooled_conv


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(("members", "channels", "units", "size"), [(3, 3, 7, 9), (2, 2, 20, 8)])
def test_values_and_gradients(members, channels, units, size):
    torch.manual_seed(0)
    images = torch.randn(members * 2, channels, size, size, requires_grad=True)
    weight = (torch.randn(members, units, channels, 3, 3) / 5).requires_grad_()
    bias = (torch.randn(members, units) / 5).requires_grad_()
    made = pooled_conv(images, weight, bias)
    each = zip(images.chunk(members), weight, bias, strict=True)
    wanted = torch.cat([F.relu(F.max_pool2d(F.conv2d(*one), 2)) for one in each])
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    grad = torch.randn_like(wanted)
    given = (images, weight, bias)
    for one, other in zip(
        torch.autograd.grad(made, given, grad),
        torch.autograd.grad(wanted, given, grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
