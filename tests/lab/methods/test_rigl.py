"""RigL: connections move from small weights to large gradients."""

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate_lab.layers import masks
from sparsegate_lab.methods import RigL
from sparsegate_lab.methods.rigl import erk_counts, move_


def test_the_smallest_connections_move_to_the_largest_gradients():
    weight = torch.tensor([5.0, 0.1, 3.0, 0.0, 0.0, 0.0])
    mask = torch.tensor([True, True, True, False, False, False])
    velocity = torch.ones(6)
    move_(weight, torch.tensor([9.0, 0.0, 9.0, 1.0, -7.0, 2.0]), mask, velocity, 0.34)
    assert mask.tolist() == [True, False, True, False, True, False]
    assert weight.tolist() == [5.0, 0.0, 3.0, 0.0, 0.0, 0.0]
    assert velocity.tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_connection_that_is_dropped_may_stay_if_its_gradient_is_largest():
    weight, mask = torch.tensor([5.0, 0.1, 0.0]), torch.tensor([True, True, False])
    move_(weight, torch.tensor([0.0, 8.0, 1.0]), mask, None, 0.5)
    assert mask.tolist() == [True, True, False]
    assert weight.tolist() == pytest.approx([5.0, 0.1, 0.0])


def test_nothing_moves_in_a_dense_layer():
    weight, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, True])
    move_(weight, torch.tensor([3.0, 4.0]), mask, None, 0.9)
    assert weight.tolist() == [1.0, 2.0]


def prepared(method, training):
    torch.manual_seed(0)
    model = method.prepare(nn.Sequential(nn.Linear(20, 20), nn.Linear(20, 5)))
    return model, method.optimizers(model, training)


def test_training_is_sparse_from_the_start_with_the_largest_weights_of_each_layer(training):
    model, _ = prepared(RigL(keep=0.1), training)
    assert sum(int(each.mask.sum()) for each in masks(model).values()) == 50
    for _, weight, mask in masks(model).values():
        assert bool((weight != 0).eq(mask).all())
        assert 0 < int(mask.sum()) < mask.numel()


def test_connections_move_at_the_scheduled_steps_and_stay_afterwards(training):
    method = RigL(keep=0.2, moves=4, until=0.8)
    model, (optimizer,) = prepared(method, training)
    moved = []
    for step in range(100):
        before = [each.mask.clone() for each in masks(model).values()]
        method.before_step(model, [optimizer], step / 100)
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
        method.after_step(model, step / 100)
        after = [each.mask for each in masks(model).values()]
        if any(not torch.equal(*both) for both in zip(before, after, strict=True)):
            moved.append(step)
        assert sum(int(mask.sum()) for mask in after) == 100
    assert moved == [20, 40, 60]
    assert method.freezes_at == 0.8
    assert method.finish(model)[0].weight.count_nonzero() <= 100


@pytest.mark.parametrize("settings", [{"swap": 1.5}, {"until": 0.0}, {"moves": 0}])
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ValueError, match="got"):
        RigL(**settings)


def test_layers_keep_their_norm():
    torch.manual_seed(0)
    layer = nn.Linear(30, 30)
    norm = float(layer.weight.detach().norm())
    model = RigL(keep=0.1).prepare(nn.Sequential(layer))
    assert float(model[0].weight.detach().norm()) == pytest.approx(norm, rel=1e-5)
    assert model[0].weight.count_nonzero() == 90


SHAPES = st.lists(
    st.lists(st.integers(1, 40), min_size=2, max_size=4).map(tuple), min_size=1, max_size=5
)


@given(SHAPES, st.floats(0.001, 1))
def test_no_layer_keeps_more_than_it_has_or_nothing(shapes, keep):
    counts = erk_counts(shapes, keep)
    assert all(1 <= count <= prod(shape) for count, shape in zip(counts, shapes, strict=True))


@given(SHAPES, st.floats(0.001, 1))
def test_the_sum_is_what_was_asked_for_but_for_rounding(shapes, keep):
    wanted = keep * sum(map(prod, shapes))
    assert sum(erk_counts(shapes, keep)) == pytest.approx(wanted, abs=len(shapes))


def test_density_follows_the_sum_of_dimensions_over_their_product():
    one, other = erk_counts([(100, 100), (200, 200)], keep=0.1)
    assert one / 10_000 == pytest.approx(2 * other / 40_000, rel=0.01)


def test_a_small_layer_is_dense_before_a_large_one_is():
    assert erk_counts([(1000, 1000), (10, 10)], keep=0.2) == [199_920, 100]


def test_all_weights_can_be_kept():
    assert erk_counts([(3, 4), (5, 6)], keep=1.0) == [12, 30]
