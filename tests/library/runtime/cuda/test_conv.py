"""Sparse convolutions in Triton, in its interpreter where there is no GPU."""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch.nn import functional as F

from sparsegate.runtime.cuda.conv import Geometry, conv, pack_conv, reference_conv
from sparsegate.runtime.cuda.tile import Tile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
slowly = settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
pairs = lambda low, high: st.tuples(st.integers(low, high), st.integers(low, high))
TILES = (None, Tile(2, 8, 1, images=16), Tile(1, 16, 2, images=32))


def kept(shape, keep):
    weight = torch.randn(shape) * (torch.rand(shape) < keep)
    return weight.to(DEVICE), torch.randn(shape[0]).to(DEVICE)


@needs_triton
@slowly
@given(
    st.sampled_from([1, 2]),
    st.integers(1, 3),
    st.integers(0, 3),
    pairs(1, 3),
    pairs(1, 2),
    pairs(0, 2),
    pairs(1, 2),
    pairs(1, 7),
    st.sampled_from([0.0, 0.2, 1.0]),
    st.sampled_from(TILES),
)
def test_a_convolution_is_that_of_pytorch(
    groups, channels, batch, kernel, stride, padding, dilation, size, keep, tile
):
    look = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    assume(min(Geometry(kernel, **look).out_size(*size)) >= 1)
    weight, bias = kept((2 * groups, channels, *kernel), keep)
    x = torch.randn(batch, channels * groups, *size, device=DEVICE)
    packed = pack_conv(weight, bias, relu=True, **look)
    wanted = F.conv2d(x.double(), weight.double(), bias.double(), **look).relu()
    torch.testing.assert_close(conv(packed, x, tile=tile).double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(reference_conv(packed, x).double(), wanted, rtol=1e-6, atol=1e-6)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_fp32(dtype):
    weight, bias = kept((4, 6, 3, 3), 0.5)
    weight, bias, x = (
        weight.to(dtype),
        bias.to(dtype),
        torch.randn(1, 6, 5, 5, device=DEVICE).to(dtype),
    )
    wanted = F.conv2d(x.double(), weight.double(), bias.double(), padding=1)
    found = pack_conv(weight, bias, relu=False, padding=(1, 1))(x).double()
    torch.testing.assert_close(found, wanted, rtol=2 * torch.finfo(dtype).eps, atol=1e-4)


@needs_triton
def test_channels_last_and_other_strides_are_taken():
    weight, bias = kept((3, 4, 3, 3), 0.5)
    packed, x = pack_conv(weight, bias, relu=False), torch.randn(2, 4, 6, 5, device=DEVICE)
    wanted = reference_conv(packed, x)
    torch.testing.assert_close(packed(x.to(memory_format=torch.channels_last)), wanted)
    torch.testing.assert_close(packed(x.transpose(2, 3).contiguous().transpose(2, 3)), wanted)


def test_wrong_channels_are_refused():
    packed = pack_conv(torch.ones(2, 3, 1, 1, device=DEVICE), None, relu=False, groups=2)
    with pytest.raises(ValueError, match="expected 6 inputs in axis 1"):
        packed(torch.zeros(1, 5, 4, 4, device=DEVICE))
