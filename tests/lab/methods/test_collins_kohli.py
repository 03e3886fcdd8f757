"""Memory bounded networks: shrinkage, and a greedy search that keeps to its budget."""

import pytest
import torch
from torch import nn

from sparsegate_lab.layers import masks
from sparsegate_lab.methods import CollinsKohli
from sparsegate_lab.methods.collins_kohli import bitten


def one_layer(method, values):
    model = method.prepare(nn.Sequential(nn.Linear(len(values), 1, bias=False)))
    model[0].weight.data = torch.tensor([values])
    return model


def a_task(method):
    """A network whose first layer has many unimportant weights, and images that it classifies."""
    torch.manual_seed(0)
    model = method.prepare(
        nn.Sequential(nn.Linear(20, 20, bias=False), nn.Linear(20, 4, bias=False))
    )
    model[0].weight.data = torch.eye(20) + 0.01 * torch.randn(20, 20)
    images = torch.randn(500, 20)
    with torch.no_grad():
        labels = model(images).argmax(1)
    return model, images, labels


def kept(model):
    return [int(layer.weight.count_nonzero()) for layer in model]


def test_l1_shrinks_by_a_distance_and_l2_by_a_factor():
    for shrinkage, wanted in (("l1", [0.9, 0.0]), ("l2", [0.9, 0.045])):
        method = CollinsKohli(shrinkage=shrinkage, price=0.5, step=0.2)
        model = one_layer(method, [1.0, 0.05])
        method.after_step(model, 0.0)
        assert model[0].weight.tolist() == [pytest.approx(wanted)]


def test_a_bite_takes_the_smallest_weights_that_are_left():
    model = one_layer(CollinsKohli(), [1.0, -5.0, 2.0, 0.5, 3.0])
    (each,) = masks(model).values()
    each.mask[0, 3] = False
    assert bitten(each, 0.5, 100).tolist() == [[False, True, False, False, True]]
    assert bitten(each, 0.5, 1).tolist() == [[False, True, True, False, True]]


def test_a_bite_never_takes_a_whole_layer():
    model = one_layer(CollinsKohli(), [1.0])
    (each,) = masks(model).values()
    assert bitten(each, 0.9, 100).tolist() == [[True]]


def test_the_search_takes_what_costs_least_and_stops_at_the_wanted_fraction(judge_on):
    method = CollinsKohli(keep=0.5, budget=5.0)
    model, images, labels = a_task(method)
    method.after_epoch(model, judge_on(model, images, labels), 0.7)
    assert sum(kept(model)) == 240  # of 480
    assert kept(model)[1] == 80  # all savings come from the layer that can spare them


def test_the_search_keeps_to_its_budget(judge_on):
    method = CollinsKohli(keep=0.01, budget=2.0)
    model, images, labels = a_task(method)
    judge = judge_on(model, images, labels)
    method.after_epoch(model, judge, 0.9)
    assert 98 <= judge.accuracy() < 100
    assert sum(kept(model)) > 5  # it would have gone on without a budget
    before = kept(model)
    method.after_epoch(
        model, judge, 0.95
    )  # of the best accuracy ever seen, not of what is left of it
    assert judge.accuracy() >= 98
    assert sum(kept(model)) <= sum(before)


def test_a_trial_leaves_no_trace(judge_on):
    method = CollinsKohli(keep=0.01, budget=0.0, bite=0.99)
    model, images, labels = a_task(method)
    before = [layer.weight.detach().clone() for layer in model]
    judge = judge_on(model, images, labels)
    method.after_epoch(model, judge, 0.9)
    assert judge.asked > 2
    assert all(torch.equal(layer.weight, was) for layer, was in zip(model, before, strict=True))


@pytest.mark.parametrize("progress", [0.1, 1.0])
def test_there_is_no_search_before_it_begins_or_when_no_training_follows(progress, silent):
    method = CollinsKohli()
    model, _, _ = a_task(method)
    method.after_epoch(model, silent, progress)
    assert sum(kept(model)) == 480


def test_a_finished_model_has_nothing_left_of_the_search():
    method = CollinsKohli()
    assert list(method.finish(one_layer(method, [1.0])).state_dict()) == ["0.weight"]


@pytest.mark.parametrize(
    "settings",
    [
        {"keep": 0.0},
        {"keep": 1.1},
        {"bite": 1.0},
        {"budget": -1.0},
        {"price": -1.0},
        {"begin": 0.8},
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        CollinsKohli(**settings)
