"""The average over draws is the threshold's output for binary gates, and leaves every mode as it was."""

import pytest
import torch
from torch import nn

from sparsegate.gates import Constant, Sample, average, gate, gates


class Broken(nn.Module):
    """A layer that fails."""

    def forward(self, inputs):
        raise RuntimeError("broken")


def mixed(*layers: nn.Module) -> nn.Sequential:
    """A sampled model in training, with one layer in eval."""
    torch.manual_seed(0)
    model = gate(
        nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.BatchNorm1d(3), *layers), draw=Sample()
    )
    model[2].eval()
    return model


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def test_for_binary_gates_it_is_the_threshold_s_output():
    model, inputs = mixed(), torch.randn(5, 4)
    gates(model)["0.weight"].gate.data.bernoulli_(0.5)
    torch.testing.assert_close(average(model, inputs, draws=3), model.eval()(inputs))


def test_over_many_draws_it_nears_the_expected_weight():
    model = gate(nn.Linear(1, 1, bias=False), draw=Sample(), start=Constant(0.25))
    model.weight = torch.tensor([[8.0]])
    torch.manual_seed(0)
    # the mean is 0.25 * 8 = 2; the standard error of 4000 draws 8 * sqrt(0.25 * 0.75 / 4000) =
    # 0.055
    assert average(model, torch.ones(1, 1), draws=4000).item() == pytest.approx(2, abs=0.25)


def test_it_draws_also_if_the_model_is_in_eval():
    model = gate(nn.Linear(50, 1), draw=Sample(), start=Constant(0.6)).eval()
    assert not torch.equal(
        average(model, torch.ones(1, 50), draws=1), average(model, torch.ones(1, 50), draws=1)
    )


def test_dropout_and_running_statistics_rest():
    model = gate(
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)),
        start=Constant(1.0),
        draw=Sample(),
    )
    inputs = torch.randn(5, 4)
    assert torch.equal(average(model, inputs, draws=1), average(model, inputs, draws=1))
    assert model[1].num_batches_tracked == 0


def test_every_mode_is_as_it_was():
    model = mixed()
    before = modes(model)
    average(model, torch.randn(5, 4), draws=2)
    assert modes(model) == before
    assert len(set(before)) == 2


def test_every_mode_is_as_it_was_after_an_error_of_the_model():
    model = mixed(Broken())
    before = modes(model)
    with pytest.raises(RuntimeError, match="broken"):
        average(model, torch.randn(5, 4), draws=2)
    assert modes(model) == before


def test_every_mode_is_as_it_was_after_the_error_that_there_are_no_gates():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    with pytest.raises(ValueError, match="no gates"):
        average(model, torch.randn(5, 4), draws=2)
    assert modes(model) == [True, True, True]


def test_no_gradient_is_kept():
    assert not average(mixed(), torch.randn(5, 4), draws=2).requires_grad


def test_several_inputs_are_passed_on():
    model = gate(nn.Bilinear(2, 3, 4), draw=Sample())
    assert average(model, torch.ones(5, 2), torch.ones(5, 3), draws=2).shape == (5, 4)


@pytest.mark.parametrize("draws", [0, -1])
def test_no_draws_are_an_error(draws):
    with pytest.raises(ValueError, match="at least 1"):
        average(mixed(), torch.randn(5, 4), draws=draws)
