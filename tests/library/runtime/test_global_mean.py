"""A mean over all places is a layer of a chain, however it is written."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.runtime.block import mean_at
from sparsegate.runtime.part import ChainPart
from sparsegate.runtime.plan import planned
from sparsegate.runtime.sparsable import captured, pieces
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")
X = torch.randn(3, 2, 7, 6)

MEANS = {
    "module": (lambda m, x: m.fc(m.pool(x).flatten(1)), {"pool": nn.AdaptiveAvgPool2d(1)}),
    "function": (lambda m, x: m.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)), {}),
    "mean": (lambda m, x: m.fc(x.mean((2, 3))), {}),
    "mean that keeps dimensions": (
        lambda m, x: m.fc(torch.flatten(x.mean(dim=[-1, -2], keepdim=True), 1)),
        {},
    ),
    "mean by a function": (lambda m, x: m.fc(torch.mean(x, dim=(2, 3))), {}),
    "with what does nothing": (
        lambda m, x: m.fc(m.drop(m.pool(x).flatten(1))),
        {"pool": nn.AdaptiveAvgPool2d(1), "drop": nn.Dropout()},
    ),
}
NOT_MEANS = {
    "of some places": lambda m, x: F.adaptive_avg_pool2d(x, 2),
    "of lines": lambda m, x: x.mean(2),
    "of channels": lambda m, x: x.mean((1, 2)),
    "of everything": lambda m, x: x.mean() + x,
    "the largest": lambda m, x: F.adaptive_max_pool2d(x, 1),
    "in another type": lambda m, x: x.mean((2, 3), dtype=torch.float64),
}


def plan_of(model):
    graph = captured(model, X)
    return planned(graph, {piece.name: "chain" for piece in pieces(graph)})


@torch.no_grad()
@pytest.mark.parametrize("name", MEANS)
def test_a_mean_between_layers_is_part_of_the_chain(written, name):
    way, modules = MEANS[name]
    model = written(
        lambda m, x: way(m, m.conv(x)), conv=nn.Conv2d(2, 5, 3), fc=nn.Linear(5, 3), **modules
    ).eval()
    plan = plan_of(model)
    assert isinstance(plan, ChainPart)
    for batch in (1, 3):
        torch.testing.assert_close(plan(X[:batch]), model(X[:batch]), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", NOT_MEANS)
def test_other_means_are_left(written, name):
    model = written(lambda m, x: NOT_MEANS[name](m, m.conv(x)), conv=nn.Conv2d(2, 5, 3)).eval()
    graph = captured(model, X)
    assert not any(mean_at(node, graph) for node in graph.nodes)
    torch.testing.assert_close(plan_of(model)(X), model(X), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_mean_that_follows_no_layer_is_torchs(written):
    model = written(lambda m, x: m.fc(x.sigmoid().mean((2, 3))), fc=nn.Linear(2, 3)).eval()
    plan = plan_of(model)
    assert [part.names for part in plan.children() if isinstance(part, ChainPart)] == [["fc"]]
    torch.testing.assert_close(plan(X), model(X))
