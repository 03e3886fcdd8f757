"""ACDC: cascades from the start, whose diagonals have an optimizer of their own."""

import pytest
import torch

from sparsegate_lab.layers import AcdcLayer
from sparsegate_lab.methods import Acdc
from sparsegate_lab.models import LeNet5
from sparsegate_lab.train import count_biases, count_layers


def test_the_numbers_of_lenet_5_by_hand():
    # 59 300 = 500 + 25 000 + 12 * 3 * 800 + 5 000 weights; the 500 biases of fc1 are gone
    model = Acdc().prepare(LeNet5())
    assert [layer.kept for layer in count_layers(model)] == [500, 25_000, 28_800, 5_000]
    assert count_biases(model)[0] == 80


def test_every_parameter_is_moved_by_one_optimiser(training):
    method = Acdc(depth=2)
    model = method.prepare(LeNet5())
    rest, own = (each.param_groups[0]["params"] for each in method.optimizers(model, training))
    assert {*own, *rest} == set(model.parameters())
    assert len(own) + len(rest) == len(list(model.parameters()))
    assert len(own) == 3


@pytest.mark.parametrize(("progress", "lr"), [(0.0, 0.2), (0.5, 0.1), (1.0, 0.0)])
def test_a_cosine_takes_the_diagonals_learning_rate_to_zero(progress, lr, training):
    method = Acdc(depth=2, diagonal_lr=0.2)
    model = method.prepare(LeNet5())
    rest, own = method.optimizers(model, training)
    method.before_step(model, [rest, own], progress)
    assert own.param_groups[0]["lr"] == pytest.approx(lr)
    assert own.param_groups[0]["weight_decay"] == 0


def test_layers_have_permutations_of_their_own():
    model = Acdc(only=("fc*",), depth=2, width=800).prepare(LeNet5())
    assert isinstance(model.fc2, AcdcLayer)
    assert not torch.equal(model.fc1.orders, model.fc2.orders)


def test_a_width_below_the_layers_is_refused_before_training():
    with pytest.raises(ValueError, match="width is at least 800"):
        Acdc(width=512).prepare(LeNet5())


@pytest.mark.parametrize("changes", [{"depth": 0}, {"diagonal_lr": 0.0}])
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="got 0"):
        Acdc(**changes)
