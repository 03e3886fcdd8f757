"""Networks with skip connections run as chains and give what they gave."""

import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from tests.library.runtime.reference import chain
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.runtime import block as room
from sparsegate.runtime.block import Block, joined
from sparsegate.runtime.part import ChainPart
from sparsegate.runtime.plan import planned
from sparsegate.runtime.sparsable import captured, pieces
from sparsegate_lab.models import ResNet20
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
SHAPE = (4, 9, 8)


def convs(*names, **settings):
    """Convolutions of four channels that keep the size, unless told otherwise, by name."""
    return {name: nn.Conv2d(4, 4, 3, **{"padding": 1, **settings}) for name in names}


def norms(*names):
    made = {name: nn.BatchNorm2d(4) for name in names}
    for norm in made.values():
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    return made


def around(m, x, sum_of=operator.add):
    """A block whose source is the first convolution, rectified."""
    source = m.zero(x).relu()
    return sum_of(m.two(m.one(source).relu()), source).relu()


def widened(m, x):
    source = m.zero(x).relu()
    return F.relu(m.two(m.wide(source).relu()) + F.pad(source[:, :, ::2, ::2], (0, 0, 0, 0, 1, 2)))


def matched(m, x):
    source = m.zero(x).relu()
    return F.relu(m.three(m.wide(source).relu()) + m.norm(m.short(source)))


THREE = convs("zero", "one", "two")
WIDE = {
    "zero": nn.Conv2d(4, 4, 3, padding=1),
    "wide": nn.Conv2d(4, 7, 3, stride=2, padding=1, bias=False),
    "two": nn.Conv2d(7, 7, 3, padding=1),
}
JOINED = {
    "plus": (around, THREE),
    "the other way round": (lambda m, x: around(m, x, lambda one, two: two + one), THREE),
    "in place": (lambda m, x: around(m, x, operator.iadd), THREE),
    "by a function": (lambda m, x: around(m, x, torch.add), THREE),
    "by a method": (lambda m, x: around(m, x, lambda one, two: one.add_(two)), THREE),
    "added in place to what is carried": (
        lambda m, x: (lambda y: y.add_(m.two(m.one(y).relu())))(m.zero(x).relu()),
        THREE,
    ),
    "with norms": (
        lambda m, x: (lambda y: F.relu(m.b(m.two(F.relu(m.a(m.one(y))))) + y))(m.zero(x).relu()),
        {**convs("zero"), **convs("one", "two", bias=False), **norms("a", "b")},
    ),
    "one convolution": (lambda m, x: (lambda y: m.one(y) + y)(m.zero(x)), convs("zero", "one")),
    "nothing is rectified": (lambda m, x: (lambda y: m.two(m.one(y)) + y)(m.zero(x)), THREE),
    "nothing is rectified after": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + y)(m.zero(x).relu()),
        THREE,
    ),
    "three convolutions": (
        lambda m, x: (lambda y: F.relu(m.three(m.two(m.one(y).relu()).relu()) + y))(
            m.zero(x).relu()
        ),
        {
            **convs("zero"),
            "one": nn.Conv2d(4, 2, 1),
            "two": nn.Conv2d(2, 2, 3, padding=1),
            "three": nn.Conv2d(2, 4, 1),
        },
    ),
    "after a pool": (
        lambda m, x: (lambda y: F.relu(m.two(m.one(y).relu()) + y))(
            F.max_pool2d(m.zero(x).relu(), 3, 2, 1)
        ),
        THREE,
    ),
    "after a module whose input is given by name": (
        lambda m, x: (lambda y: F.relu(m.two(m.one(y).relu()) + y))(m.drop(input=m.zero(x).relu())),
        {**THREE, "drop": nn.Dropout()},
    ),
    "dilated": (
        around,
        {**convs("zero", "one"), "two": nn.Conv2d(4, 4, (3, 5), padding=(2, 4), dilation=2)},
    ),
    "wider, with zeros": (widened, WIDE),
    "wider, by a matrix": (
        matched,
        {
            "zero": nn.Conv2d(4, 4, 3, padding=1),
            "wide": nn.Conv2d(4, 7, 3, stride=2, padding=1, bias=False),
            "three": nn.Conv2d(7, 5, 1),
            "short": nn.Conv2d(4, 5, 1, stride=2),
            "norm": nn.BatchNorm2d(5).eval(),
        },
    ),
}


def plan_of(model, x):
    graph = captured(model, x)
    return planned(graph, {piece.name: "chain" for piece in pieces(graph)})


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 5, 20])
@pytest.mark.parametrize("name", JOINED)
def test_a_skip_connection_is_carried_however_it_is_written(written, sparsified, name, batch):
    way, modules = JOINED[name]
    model = sparsified(written(way, **modules), sparsity=0.5)
    x = torch.randn(batch, *SHAPE)
    plan, graph = plan_of(model, x), captured(model, x)
    assert sum(isinstance(unit, Block) for unit in joined(pieces(graph), graph)) == 1
    is_one = name != "after a pool"  # a padded pool stays torch's
    assert isinstance(plan, ChainPart) == is_one
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


NOT_JOINED = {
    "what is carried may be below zero": (
        lambda m, x: (lambda y: F.relu(m.two(m.one(y).relu()) + y))(m.zero(x)),
        THREE,
    ),
    "carried from the input": (lambda m, x: m.two(m.one(x).relu()) + x, convs("one", "two")),
    "read by somebody else": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + y + F.gelu(y))(m.zero(x).relu()),
        THREE,
    ),
    "rectified before the sum": (
        lambda m, x: (lambda y: m.one(y).relu() + y)(m.zero(x).relu()),
        convs("zero", "one"),
    ),
    "in groups": (around, {**convs("zero", "one"), **convs("two", groups=2)}),
    "times a number": (
        lambda m, x: around(m, x, lambda one, two: torch.add(one, two, alpha=2)),
        THREE,
    ),
    "twice the same": (
        lambda m, x: (lambda y: y + y)(m.one(m.zero(x).relu())),
        convs("zero", "one"),
    ),
    "a number is added": (lambda m, x: (m.one(m.zero(x).relu()) + 1).relu(), convs("zero", "one")),
    "a mean goes around": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + F.adaptive_avg_pool2d(y, 1))(
            m.zero(x).relu()
        ),
        THREE,
    ),
    "something else goes around": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + F.gelu(y))(m.zero(x).relu()),
        THREE,
    ),
    "a rectified matrix goes around": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + m.short(y).relu())(m.zero(x).relu()),
        {**THREE, "short": nn.Conv2d(4, 4, 1)},
    ),
    "a larger convolution goes around": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + m.short(y))(m.zero(x).relu()),
        {**THREE, **convs("short")},
    ),
    "padded with ones": (
        lambda m, x: (
            lambda y: (
                m.two(m.wide(y).relu()) + F.pad(y[:, :, ::2, ::2], (0, 0, 0, 0, 1, 2), value=1.0)
            )
        )(m.zero(x).relu()),
        WIDE,
    ),
    "other places": (
        lambda m, x: (lambda y: m.two(m.one(y).relu()) + y[:, :, 1::2, ::2])(m.zero(x).relu()),
        {
            "zero": nn.Conv2d(4, 4, 3, padding=1),
            "one": nn.Conv2d(4, 4, 3, (2, 2), (0, 1)),
            **convs("two"),
        },
    ),
    "pooled on the way": (
        lambda m, x: (lambda y: m.two(F.max_pool2d(m.one(y).relu(), 3, 1)) + y)(m.zero(x).relu()),
        {**convs("zero", "one"), **convs("two", padding=2)},
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("name", NOT_JOINED)
def test_what_cannot_be_carried_is_left(written, sparsified, name):
    way, modules = NOT_JOINED[name]
    model = sparsified(written(way, **modules), sparsity=0.5)
    x = torch.randn(3, *SHAPE)
    graph = captured(model, x)
    assert not any(isinstance(unit, Block) for unit in joined(pieces(graph), graph))
    torch.testing.assert_close(plan_of(model, x)(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_an_input_that_is_called_like_a_rectifier_is_none(sparsified):
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = convs("one", "two").values()

        def forward(self, relu):
            return self.two(self.one(relu).relu()) + relu

    model, x = sparsified(Around(), sparsity=0.5), torch.randn(3, *SHAPE)
    torch.testing.assert_close(plan_of(model, x)(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_block_that_would_take_too_much_memory_is_left(written, monkeypatch):
    monkeypatch.setattr(room, "MOST_NUMBERS", 8 * 8 * 9)
    model, x = written(around, **THREE), torch.randn(3, *SHAPE)
    plan = plan_of(model, x)
    assert not isinstance(plan, ChainPart)
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3, 17])
def test_a_residual_network_is_one_call(sparsified, batch):
    torch.manual_seed(0)
    model = ResNet20()
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)
    model, x = sparsified(model), torch.randn(batch, 3, 32, 32)
    fast = sg.sparse(model, x, kernel="chain")
    assert isinstance(plan_of(model, x), ChainPart)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["one", "two", "zero"])
def test_a_layer_that_stays_dense_ends_the_block(written, name):
    model, x = written(around, **THREE), torch.randn(3, *SHAPE)
    graph = captured(model, x)
    plan = planned(
        graph,
        {piece.name: "dense" if piece.name == name else "chain" for piece in pieces(graph)},
    )
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@st.composite
def blocks(draw):
    """Two or three convolutions of any size that keep a middle, and a matrix around them."""
    entering, count = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    layers, width, stride = [], entering, [1, 1]
    for _ in range(count):
        taps, dilation = draw(st.sampled_from((1, 3, 5))), draw(st.integers(1, 2))
        steps = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
        leaving = draw(st.integers(1, 5))
        layers.append(
            nn.Conv2d(
                width,
                leaving,
                taps,
                steps,
                dilation * (taps // 2),
                dilation,
                bias=draw(st.booleans()),
            )
        )
        width, stride = leaving, [one * two for one, two in zip(stride, steps, strict=True)]
    short = nn.Conv2d(entering, width, 1, tuple(stride), bias=draw(st.booleans()))
    relus = [draw(st.booleans()) for _ in range(count)]
    return layers, short, relus, (entering, draw(st.integers(1, 12)), draw(st.integers(1, 12)))


@torch.no_grad()
@settings(max_examples=examples(25), deadline=None)
@given(drawn=blocks(), batch=st.sampled_from((1, 2, 17)), seed=st.integers(0, 99))
def test_any_block_computes_what_its_layers_do(written, drawn, batch, seed):
    layers, short, relus, shape = drawn

    def way(m, x):
        x = source = x.relu()
        for layer, relu in zip(m.layers[:-1], relus, strict=False):
            x = layer(x).relu() if relu else layer(x)
        x = m.layers[-1](x) + m.short(source)
        return x.relu() if relus[-1] else x

    torch.manual_seed(seed)
    model = written(way, layers=nn.ModuleList(layers), short=short).eval()
    for parameter in model.parameters():
        parameter.copy_(
            torch.randint(-2, 3, parameter.shape) * (torch.rand(parameter.shape) < 0.5)
        )  # sums are exact
    x = torch.randint(-3, 4, (batch, *shape)).float()
    graph = captured(model, x)
    (unit,) = joined(pieces(graph), graph)
    assert torch.equal(chain(unit.layers, x.relu()).float(), model(x).flatten(1))
    assert torch.equal(plan_of(model, x)(x), model(x))
