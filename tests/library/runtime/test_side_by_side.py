"""Drawn networks on images that lie side by side against torch in float64."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import nn

from sparsegate.runtime.grouped import fastest
from sparsegate.runtime.planned import Planned, captured
from sparsegate.runtime.translate import translated
from sparsegate_runtime.engine import Plan, run_arrays
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
MOST = 5
"""Layers of a network."""


@st.composite
def layers(draw, channels, size):
    """A layer that images of this size fit, and what it makes of them."""
    kind = draw(st.sampled_from(("conv", "conv", "depthwise", "max", "mean")))
    taps = draw(st.integers(1, 5))
    stride = draw(st.integers(1, 3))
    pad = draw(st.integers(0, taps // 2))
    gap = draw(st.integers(1, 2)) if kind in ("conv", "depthwise") else 1
    after = (size + 2 * pad - gap * (taps - 1) - 1) // stride + 1
    if after < 1:
        return nn.ReLU(), channels, size
    if kind == "conv":
        outputs = draw(st.sampled_from((1, 3, 16, 17)))
        return nn.Conv2d(channels, outputs, taps, stride, pad, gap), outputs, after
    if kind == "depthwise":
        return nn.Conv2d(channels, channels, taps, stride, pad, gap, channels), channels, after
    pool = nn.MaxPool2d if kind == "max" else nn.AvgPool2d
    return pool(taps, stride, pad), channels, after


@st.composite
def networks(draw):
    """A network of a few layers with zeros, and the shape of an image."""
    first = channels, size = draw(st.sampled_from((1, 3, 16))), draw(st.integers(5, 19))
    found = []
    for _ in range(draw(st.integers(1, MOST))):
        layer, channels, size = draw(layers(channels, size))
        found.append(layer)
        found += draw(st.sampled_from(([], [nn.ReLU()], [nn.BatchNorm2d(channels), nn.SiLU()])))
    return nn.Sequential(*found).eval().requires_grad_(False), (first[0], first[1], first[1])


@settings(max_examples=examples(25), deadline=None)
@given(networks(), st.integers(0, 999))
@torch.no_grad()
def test_drawn_networks_compute_what_torch_does(drawn, seed):
    model, shape = drawn
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.mul_(torch.rand_like(parameter) < 0.4)
    x = torch.randn(16, *shape)
    got = Planned.of(model, x, side_by_side=True)([x])
    wanted = copy.deepcopy(model).double()(x.double())
    assert float((got - wanted).abs().max()) <= 2e-5 * max(1.0, float(wanted.abs().max()))


@torch.no_grad()
def test_a_batch_of_several_times_sixteen_runs_in_groups():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model = model.eval().requires_grad_(False)
    for batch in (16, 17, 32):
        x = torch.randn(batch, 3, 20, 20)
        chosen = fastest(lambda given: captured(model, given[0]), (x,))
        assert torch.allclose(chosen([x]), model(x), atol=1e-5)


@pytest.mark.parametrize("variant", range(KERNELS.sg_variant() + 1 if KERNELS else 0))
@torch.no_grad()
def test_every_kind_of_processor_computes_the_same(variant):
    model = Excited().eval().requires_grad_(False)
    x = torch.randn(16, 3, 13, 11)
    network, _ = translated(captured(model, x))
    plan = Plan(network, variant=variant, side_by_side=True)
    for threads in (1, 2):
        (got,) = run_arrays(plan, [x.numpy()], threads=threads)
        assert torch.allclose(torch.from_numpy(got), model(x), atol=1e-5)


class Excited(nn.Module):
    """Strided layers, a pool, and channels scaled by what their mean says."""

    def __init__(self):
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 9, 3, 2, 1), nn.MaxPool2d(3, 2, 1)
        self.scale, self.out = nn.Conv2d(9, 9, 1), nn.Conv2d(9, 5, 3, 1, 1)

    def forward(self, x):
        y = self.pool(nn.functional.silu(self.stem(x)))
        return self.out(y * self.scale(y.mean((2, 3), keepdim=True)).sigmoid() + 0.5)


@pytest.mark.parametrize(("taps", "stride", "pad"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)])
@pytest.mark.parametrize("pool", [nn.MaxPool2d, nn.AvgPool2d])
@torch.no_grad()
def test_a_convolution_and_its_pool_run_in_bands_of_lines(taps, stride, pad, pool):
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, 3, padding=1)
    conv.weight *= torch.rand_like(conv.weight) < 0.5
    model = nn.Sequential(conv, nn.SiLU(), pool(taps, stride, pad), nn.Conv2d(8, 2, 3, 1, 1)).eval()
    x = torch.randn(16, 3, 67, 66)
    planned = Planned.of(model, x, side_by_side=True)
    kinds = [one.kind.name for one in planned.plan.program.operations]
    assert kinds.count("POOL") > 5
    wanted = copy.deepcopy(model).double()(x.double())
    for _ in range(2):  # what the first run leaves in memory has no effect
        assert float((planned([x]) - wanted).abs().max()) < 2e-5
