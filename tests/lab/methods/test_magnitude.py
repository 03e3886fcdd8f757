"""Magnitude pruning finds one multiple of each layer's deviation for the wanted fraction."""

import pytest
import torch
from torch import nn

from sparsegate.schedule import Rounds
from sparsegate_lab.layers import dropout_rates
from sparsegate_lab.methods import Magnitude


def prepared(**settings):
    torch.manual_seed(0)
    method = Magnitude(**settings)
    model = method.prepare(nn.Sequential(nn.Linear(50, 40), nn.ReLU(), nn.Linear(40, 30)))
    return method, model


def test_the_threshold_is_the_same_multiple_of_every_layers_standard_deviation(silent):
    method, model = prepared(keep=0.3, rounds=Rounds(count=1))
    before = [model[0].weight.detach().clone(), model[2].weight.detach().clone()]
    before[1] *= 100  # a layer on another scale is treated alike
    model[2].weight.data.copy_(before[1])
    method.after_epoch(model, silent, 1.0)
    lowest = [
        weight[layer.weight != 0].abs().min() / weight.std(unbiased=False)
        for weight, layer in zip(before, (model[0], model[2]), strict=True)
    ]
    highest = [
        weight[layer.weight == 0].abs().max() / weight.std(unbiased=False)
        for weight, layer in zip(before, (model[0], model[2]), strict=True)
    ]
    assert max(highest) <= min(lowest)
    kept = sum(int(layer.weight.count_nonzero()) for layer in (model[0], model[2]))
    assert kept == round(0.3 * 3200)  # 3200 = 50 * 40 + 40 * 30


def test_a_lower_factor_spares_its_layer(silent):
    method, model = prepared(keep=0.3, rounds=Rounds(count=1), factors=(("2.*", 0.1),))
    method.after_epoch(model, silent, 1.0)
    assert (
        model[2].weight.count_nonzero() / 1200 > 0.7 > 0.3 > model[0].weight.count_nonzero() / 2000
    )


def test_survivors_are_not_touched_by_a_cut_and_removed_weights_stay_out(silent):
    method, model = prepared(keep=0.25)
    before = model[0].weight.detach().clone()
    method.after_epoch(model, silent, 1.0)
    left = model[0].weight != 0
    assert torch.equal(model[0].weight[left], before[left])
    model[0].weight.data.add_(1.0)
    method.after_step(model, 1.0)
    assert torch.equal(model[0].weight != 0, left)


def test_it_cuts_in_rounds(silent):
    method, model = prepared(keep=0.125, rounds=Rounds(count=3, begin=0.2, end=0.6))
    kept = []
    for progress in (0.1, 0.2, 0.3, 0.4, 0.6, 1.0):
        method.after_epoch(model, silent, progress)
        kept.append(sum(int(layer.weight.count_nonzero()) for layer in (model[0], model[2])))
    assert kept == [3200, 1600, 1600, 800, 400, 400]


def test_dropout_falls_with_the_connections_of_its_layer(silent):
    method, model = prepared(keep=0.25, rounds=Rounds(count=1), dropout=0.5)
    method.after_epoch(model, silent, 1.0)
    left = int(model[2].weight.count_nonzero()) / 1200
    assert dropout_rates(model) == {"2": pytest.approx(0.5 * left**0.5)}
    assert list(method.finish(model).state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.5, float("nan")])
def test_a_keep_that_is_no_fraction_is_refused(keep):
    with pytest.raises(ValueError, match="keep is a fraction"):
        Magnitude(keep=keep)


@pytest.mark.parametrize("settings", [{"dropout": 1.0}, {"factors": (("*", 0.0),)}])
def test_other_settings_are_checked(settings):
    with pytest.raises(ValueError, match=r"dropout|factor"):
        Magnitude(**settings)


def test_a_pattern_that_matches_nothing_is_refused_before_training():
    with pytest.raises(
        ValueError, match=r"no weight matches 'conv\*'; the model's weights are 0.weight, 2.weight"
    ):
        prepared(factors=(("conv*", 0.5),))
