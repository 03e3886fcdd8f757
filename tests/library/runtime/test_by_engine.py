"""Models that the engine cannot run say why, and shapes that it plans later are checked."""

import copy

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.engine_forward import EngineForward
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


class Way(nn.Module):
    """Two sparse layers and a forward."""

    def __init__(self, way):
        super().__init__()
        self.one, self.two, self.way = nn.Linear(64, 64), nn.Linear(64, 64), way
        for layer in (self.one, self.two):
            layer.weight.data.mul_(torch.rand(64, 64) < 0.1)

    def forward(self, *given):
        return self.way(self, *given)


def is_planned(fast):
    return isinstance(vars(fast).get("forward"), EngineForward)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (lambda m, x: m.one(x) if x.sum() > 0 else m.two(x), "cannot be captured by torch.export"),
        (lambda m, x: (m.one(x), m.one(x).argmax(-1)), "an output of type int64"),
        (lambda m, x: (m.one(x), m.two(x).sort(-1)[0]), "it has no aten.sort.default, and was"),
    ],
)
def test_print_says_why_the_engine_does_not_run_a_model(way, reason, capfd):
    model, x = Way(way), torch.rand(3, 64)
    fast = sg.sparse(model, (x,))
    assert not is_planned(fast)
    assert f"runs by the model's own code, not by the engine: {reason}" in str(fast) or (
        "cannot be captured" in reason and reason in str(fast)
    )
    assert "def forward" not in capfd.readouterr().err


@torch.no_grad()
def test_inputs_and_results_of_torch_are_returned():
    for way in (
        lambda m, x: (m.one(x).relu() + m.two(x), x),
        lambda m, x: (m.one(x).relu() + m.two(x), x.view(-1), x[0]),
    ):
        model, x = Way(way), torch.randn(3, 64)
        fast = sg.sparse(model, (x,))
        assert is_planned(fast)
        for given in (x, torch.randn(5, 64)):
            torch.testing.assert_close(fast(given), model(given), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_an_unbatched_signal_through_layers_of_torch():
    model = nn.Sequential(
        nn.ConvTranspose1d(2, 3, 2, 2), nn.Conv1d(3, 2, 3, padding="same", padding_mode="reflect")
    )
    x = torch.randn(2, 5)
    forward = EngineForward(copy.deepcopy(model), model)
    planned = forward.plan((x,), {})
    torch.testing.assert_close(planned([x]), model(x))


@torch.no_grad()
def test_a_plan_that_gives_something_else_is_not_used():
    odd = []
    model = Way(lambda m, x: m.one(x) + m.two(x) + sum(odd))
    fast = sg.sparse(model, (torch.randn(3, 64),))
    assert is_planned(fast)
    forward = vars(fast)["forward"]
    made = forward.plan((torch.randn(2, 64),), {})
    odd.append(9.0)  # the module's own code gives something else from now on
    with pytest.raises(ValueError, match="something else than its captured operations"):
        forward._check(made, (torch.randn(2, 64),), {})


@pytest.mark.parametrize("form", [tuple, dict])
def test_a_chain_may_be_given_as_a_tuple_or_by_keyword(form):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    for layer in (model[0], model[2]):
        layer.weight.data.mul_(torch.rand(64, 64) < 0.1)
    x = torch.randn(2, 64)
    fast = sg.sparse(model, (x,) if form is tuple else {"input": x})
    torch.testing.assert_close(fast(input=x), model(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def test_an_integer_input_that_is_an_output_keeps_its_type_and_values():
    class Tagged(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.layer = nn.Embedding(30, 16), nn.Linear(16, 16)

        def forward(self, words):
            return self.layer(self.table(words)), words

    model = Tagged().eval()
    fast = sg.sparse(model, torch.randint(0, 30, (4, 7)))
    for batch in (4, 2, 16):
        words = torch.randint(0, 30, (batch, 7))
        found, wanted = fast(words), model(words)
        torch.testing.assert_close(found[0], wanted[0], atol=1e-5, rtol=1e-4)
        assert found[1].dtype == torch.int64
        assert torch.equal(found[1], words)
