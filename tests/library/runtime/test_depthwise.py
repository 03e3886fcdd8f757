"""Depthwise convolutions, those of stride two by the kernel for them, against torch in float64."""

import copy

import pytest
import torch
from torch import nn

from sparsegate.runtime.planned import Planned, captured
from sparsegate.runtime.translate import translated
from sparsegate_runtime.engine import Plan, run_arrays
from sparsegate_runtime.engine.structures import Kind
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
CHANNELS = 5
SIZES = [(7, 7), (14, 9), (16, 16), (31, 33), (5, 40)]
FORMS = [(1, False), (3, False), (16, True)]


class Plus(nn.Module):
    """What a branch adds to its input."""

    def __init__(self, branch):
        super().__init__()
        self.branch = branch

    def forward(self, x):
        return torch.relu(x + self.branch(x))


class Excite(nn.Module):
    """Scales channels by what their means say."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(CHANNELS, 4, 1), nn.Conv2d(4, CHANNELS, 1)

    def forward(self, x):
        scale = self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True))))
        return x * nn.functional.hardsigmoid(scale)


def network(taps, stride, pad, act):
    """A depthwise convolution between others, and one in a skip connection."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, CHANNELS, 1),
        nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, taps, stride, pad, groups=CHANNELS),
        act,
        Plus(nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1, groups=CHANNELS)),
        Excite(),
        nn.Conv2d(CHANNELS, 4, 3, 1, 1),
    ]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def worst(model, batch, *, size, side_by_side, rounds=2):
    """The largest difference from float64, relative to the largest output, over some inputs."""
    x = torch.randn(batch, 3, *size)
    planned = Planned.of(model, x, side_by_side=side_by_side)
    exact, gaps = copy.deepcopy(model).double(), []
    for _ in range(rounds):
        x = torch.randn(batch, 3, *size)
        wanted = exact(x.double())
        gaps.append(float((planned([x]) - wanted).abs().max() / wanted.abs().max()))
    return max(gaps)


every_size = pytest.mark.parametrize("size", SIZES)
every_form = pytest.mark.parametrize(("taps", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)])
ACTS = [nn.Identity(), nn.ReLU6(), nn.Hardswish(), nn.SiLU()]


def assert_right(taps, stride, pad, size, form, act):
    """A network computes what torch does, if its input is large enough."""
    if min(size) + 2 * pad >= taps:
        model, (batch, side_by_side) = network(taps, stride, pad, act), form
        assert worst(model, batch, size=size, side_by_side=side_by_side) < 1e-5


@every_size
@every_form
@torch.no_grad()
def test_every_size_computes_what_torch_does(taps, stride, size):
    for pad, form, act in zip((taps // 2, 0, 1), FORMS, ACTS, strict=False):
        assert_right(taps, stride, pad, size, form, act)


@pytest.mark.slow
@every_size
@every_form
@torch.no_grad()
def test_every_size_computes_what_torch_does_with_every_border_in_every_form(taps, stride, size):
    for index, pad in enumerate((taps // 2, 0, 1)):
        for form, act in zip(FORMS, ACTS[index:] + ACTS[:index], strict=False):
            assert_right(taps, stride, pad, size, form, act)


@torch.no_grad()
def test_large_images_run_in_bands_with_their_neighbours():
    model = network(3, 1, 1, nn.ReLU6())
    assert worst(model, 1, size=(150, 141), side_by_side=False) < 1e-5


@pytest.mark.parametrize("variant", range(KERNELS.sg_variant() + 1 if KERNELS else 0))
@pytest.mark.parametrize("batch", [2, 16])
@torch.no_grad()
def test_every_kind_of_processor_computes_the_same(variant, batch):
    for taps, stride in ((3, 1), (3, 2), (5, 2)):
        model, x = network(taps, stride, 1, nn.Hardswish()), torch.randn(batch, 3, 21, 19)
        graph, _ = translated(captured(model, x))
        plan = Plan(graph, variant=variant, side_by_side=batch == 16)
        (got,) = run_arrays(plan, [x.numpy()])
        wanted = copy.deepcopy(model).double()(x.double())
        gap = (torch.from_numpy(got) - wanted).abs().max() / wanted.abs().max()
        assert float(gap) < 1e-5


@torch.no_grad()
def test_threads_share_the_channels():
    model, x = network(5, 2, 2, nn.ReLU()), torch.randn(2, 3, 30, 30)
    graph, _ = translated(captured(model, x))
    plan = Plan(graph)
    one, two = (run_arrays(plan, [x.numpy()], threads=threads)[0] for threads in (1, 2))
    assert (one == two).all()


@torch.no_grad()
def test_zeros_in_the_kernel_leave_it_to_the_sparse_kernel():
    model, x = network(3, 2, 1, nn.ReLU()), torch.randn(1, 3, 9, 9)
    plans = []
    for _ in range(2):
        plans.append([one.kind for one in Planned.of(model, x).plan.program.operations])
        model[2].weight[:, :, :2] = 0
    assert [Kind.DEPTHWISE in kinds for kinds in plans] == [True, False]


@torch.no_grad()
def test_images_with_more_border_than_pixels_have_zeros_around_them():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 5, 1), nn.Conv2d(5, 5, 7, groups=5), nn.Conv2d(5, 4, 3, 1, 1)]
    model = nn.Sequential(*layers).eval()
    assert worst(model, 16, size=(14, 9), side_by_side=True) < 1e-5
