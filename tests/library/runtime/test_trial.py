"""Models that remember earlier calls keep doing so, and the model of the caller stays as it was."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.modules import stand_in
from sparsegate.runtime.trial import are_near, tried
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


class Stateful(nn.Module):
    """A layer, and something that its forward changes."""

    def __init__(self, way):
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.layer.weight.data.mul_(torch.rand(64, 64) < 0.1)
        self.register_buffer("mean", torch.zeros(64))
        self.way, self.calls, self.seen, self.last, self.table = way, 0, [], None, None

    def forward(self, x):
        return self.way(self, x)


def counts(module, x):
    module.calls += 1
    return module.layer(x) * module.calls


def averages(module, x):
    module.mean.mul_(0.9).add_(x.mean(0))
    return module.layer(x - module.mean)


def replaces(module, x):
    module.mean = 0.9 * module.mean + x.mean(0)
    return module.layer(x - module.mean)


def collects(module, x):
    module.seen.append(x.mean())
    return module.layer(x) + sum(module.seen)


def recalls(module, x):
    module.last = module.layer(x if module.last is None else x + module.last)
    return module.last


def keeps_a_table(module, x):
    if module.table is None:
        module.table = torch.ones(64)
    return module.layer(x) * module.table


REMEMBERING = [counts, averages, replaces, collects, recalls]


@pytest.mark.parametrize("way", REMEMBERING)
@pytest.mark.parametrize(
    ("form", "kernel"),
    [
        ("tensor", None),
        ("tuple", "chain"),
        pytest.param("tuple", None, marks=pytest.mark.slow),
        pytest.param("tensor", "chain", marks=pytest.mark.slow),
    ],
)
@torch.no_grad()
def test_a_forward_that_remembers_goes_on_remembering(way, form, kernel):
    model, x = Stateful(way).eval(), torch.randn(3, 64)
    before = copy.deepcopy(model)
    fast = sg.sparse(model, x if form == "tensor" else (x,), kernel=kernel)
    assert torch.equal(model.mean, before.mean)
    assert (model.calls, model.seen, model.last) == (0, [], None)
    for given in (x, 2 * x, x):
        torch.testing.assert_close(fast(given), model(given), rtol=1e-4, atol=1e-4)
    assert torch.equal(model.layer.weight, before.layer.weight)


def test_print_says_that_it_remembers():
    fast = sg.sparse(Stateful(counts), torch.randn(3, 64))
    assert "not by the engine: its forward remembers earlier calls" in str(fast)
    with pytest.raises(ValueError, match="remembers nothing of earlier calls"):
        sg.sparse(Stateful(counts), torch.randn(3, 64), batches=[1, 2])


@pytest.mark.parametrize("way", [*REMEMBERING, keeps_a_table])
def test_what_is_computed_once_is_not_remembered(way):
    _, remembers = tried(Stateful(way), (torch.randn(3, 64),))
    assert remembers == (way is not keeps_a_table)


def test_a_stand_in_shares_parameters_and_changes_nothing_else():
    model = Stateful(averages).eval()
    other = stand_in(model)
    other(torch.ones(2, 64))
    assert other.layer.weight is model.layer.weight
    assert not model.mean.any()


def test_an_input_that_a_forward_changes_stays_the_callers():
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8))
    x = torch.randn(3, 8)
    before = x.clone()
    for example in (x, (x,), {"input": x}):
        sg.sparse(model, example)
        assert torch.equal(x, before)


def test_outputs_are_near_up_to_a_thousandth_of_the_largest():
    x = torch.tensor([1000.0, 1.0, float("nan")])
    assert are_near([x + 0.5], [x])
    assert not are_near([x + 2], [x])
    assert not are_near([x], [x, x])
    assert not are_near([x[:2]], [x])
    assert not are_near([x[:2] * 1j], [x[:2] * (1 + 1j)])
    assert are_near([x.long()], [x.long() + 1])


COUNTED = [0]


class ByClass(nn.Module):
    """Counts its calls in its class."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        ByClass.calls += 1
        return self.layer(x) if ByClass.calls < 1000 else x


class ByGlobal(nn.Module):
    """Counts its calls in a global variable."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        COUNTED[0] += 1
        return self.layer(x) if COUNTED[0] < 1000 else x


def by_closure():
    """A model that counts its calls in a variable around its forward."""
    calls = 0

    class ByClosure(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            nonlocal calls
            calls += 1
            return self.layer(x) if calls < 1000 else x

    return ByClosure()


@pytest.mark.parametrize("make", [ByClass, ByGlobal, by_closure])
def test_what_a_forward_changes_outside_of_its_module_is_noticed(make):
    _, remembers = tried(make().eval(), (torch.randn(2, 64),))
    assert remembers
